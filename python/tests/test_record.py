import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
import records

from multipilot import Record, RecordError
from multipilot.experience import contexts


def test_a_saved_record_reads_back_equal(tmp_path: Path) -> None:
    record = records.make({"lia": 0.6, "reno": 0.8}, seeds=2, seconds=2)
    again = Record.load(record.save(tmp_path / "r"))
    assert again.rows.equals(record.rows)
    assert again.transfers.equals(record.transfers)
    assert again.samples.equals(record.samples)
    assert again.scenario_text == record.scenario_text
    assert again.variants == ["lia", "reno"]


def test_numbers_stay_numbers_where_the_first_row_has_none(tmp_path: Path) -> None:
    record = records.make({"lia": 0.6}, seeds=2, seconds=1)
    record.row_dicts[0]["completion_s"] = None
    record.row_dicts[1]["completion_s"] = 3
    assert record.rows["completion_s"].to_pylist() == [None, 3.0]


def test_runs_without_telemetry_are_read(tmp_path: Path) -> None:
    folder = records.write(tmp_path / "r", variants={"lia": 0.6}, seeds=2, seconds=1)
    for file in (folder / "runs/0001").iterdir():
        file.unlink()
    assert set(Record.load(folder).samples["row"].to_pylist()) == {0}


def test_parquet_holds_the_same_tables(tmp_path: Path) -> None:
    record = records.make({"lia": 0.6}, seeds=1, seconds=1)
    files = record.to_parquet(tmp_path)
    assert [file.name for file in files] == ["rows.parquet", "transfers.parquet", "samples.parquet"]
    assert parquet.read_table(files[2]).equals(record.samples)
    assert parquet.read_table(files[1]).to_pylist() == record.transfers.to_pylist()


def test_decisions_are_kept_where_there_are_some(tmp_path: Path) -> None:
    record = records.make({"lia": 0.6}, seeds=3, seconds=1, decided=[0, 2, 2])
    folder = record.save(tmp_path / "r")
    assert [run.name for run in sorted(folder.glob("runs/*")) if (run / "decisions.arrow").exists()] == ["0000", "0002"]
    again = Record.load(folder)
    assert again.decisions.equals(record.decisions)
    assert list(again.to_pandas()["decisions"]["row"]) == [0, 2, 2]
    *_, file = again.to_parquet(tmp_path / "pq")
    assert file.name == "decisions.parquet"
    table = parquet.read_table(file)
    assert table.to_pylist() == record.decisions.to_pylist()
    known = contexts(table, ["lte.cqi", "wifi.rtt_ms"])
    np.testing.assert_array_equal(known, [[np.nan, 10], [np.nan, 12], [np.nan, 12]])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no result.json"),
        ("{", "Expecting"),
        ("[]", "schema None"),
        (json.dumps({"schema": 9, "rows": []}), "schema 9"),
        (json.dumps({"schema": 1}), "no rows"),
        (json.dumps({"schema": 1, "rows": [5]}), "row 0 has no variant"),
        (json.dumps({"schema": 1, "rows": [{"variant": "lia", "seed": 1}]}), "row 0 has no goodput_mbps"),
        ("\xff\xfe", "codec can't decode"),
    ],
)
def test_what_is_no_record_says_so_in_one_line(tmp_path: Path, content: str | None, says: str) -> None:
    if content is not None:
        (tmp_path / "result.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(RecordError, match=says) as caught:
        Record.load(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_torn_arrow_file_is_named(tmp_path: Path) -> None:
    folder = records.write(tmp_path / "r", variants={"lia": 0.6}, seeds=1, seconds=1)
    file = folder / "runs/0000/samples.arrow"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(RecordError, match=r"samples\.arrow: not an Arrow IPC file"):
        Record.load(folder)


def test_what_is_not_there_is_also_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no result\.json"):
        Record.load(tmp_path / "nowhere")


def test_a_notebook_shows_a_record() -> None:
    record = records.make({"lia": 0.6, "<reno>": 0.8}, seeds=3, seconds=2)
    assert repr(record) == "<Record wifi-lte (kernel): 2 variants, 3 seeds, 6 runs>"
    table = record._repr_html_()
    assert "&lt;reno&gt;</td><td>3</td>" in table
    assert "<reno>" not in table
    assert "95 % interval" in table
    for figure in (record.plot(), record.plot("lia")):
        picture = figure._repr_png_()  # type: ignore[attr-defined]
        assert picture.startswith(b"\x89PNG")
    # Real colours, not those that the page's style sheet replaces.
    bar = record.plot().axes[0].patches[1].get_facecolor()
    assert tuple(round(255 * part) for part in bar[:3]) == (0x18, 0x60, 0xD0)
    with pytest.raises(KeyError, match="one of lia, <reno>"):
        record.plot("nosuch")
