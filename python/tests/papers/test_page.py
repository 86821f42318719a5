"""The kit's tables, and rows by any of their columns."""

from multipilot.papers.charts import draw
from multipilot.papers.page import lines, number, table
from multipilot.papers.results import KERNEL, SIM, Results
from multipilot.stats import Mean, mean_of

VALUES = {"lia": mean_of([1.0, 1.2]), "olia": mean_of([2.0]), "balia": mean_of([])}


def mean(name: str) -> Mean:
    return VALUES[name]


def test_a_table_has_a_line_for_each_name_that_was_measured() -> None:
    found = lines(VALUES, mean, lambda name: mean("balia"), label=str.upper, digits=(1, 2))
    assert [line[0] for line in found] == ["LIA", "OLIA"]
    assert found[0][1].startswith("1.1 <span")
    assert found[1][1] == "2.0"
    assert all("–" in line[2] for line in found)


def test_a_head_is_a_list_or_one_string() -> None:
    rows = [["LIA", "1"]]
    assert table(" | Mbit/s<br>each", rows) == table(["", "Mbit/s<br>each"], rows)
    assert table("a | b", rows, title="x < y").startswith("<h3>x &lt; y</h3><table>")


def test_a_column_in_which_nothing_was_measured_is_left_out() -> None:
    rows = lines(("lia", "olia"), mean, lambda name: mean("balia"))
    html = table("who | simulator | kernel", rows)
    assert ("simulator" in html, "kernel" in html, html.count("<td")) == (True, False, 4)
    assert "kernel" in table("who | simulator | kernel", [*rows, ["reno", number(None), "1.0"]]), "in one line it was"


def test_nothing_measured_is_no_table_and_no_picture() -> None:
    assert table("a | b", [], title="On the kernel") == ""
    assert draw([], "nothing") == ""


def test_rows_are_found_by_columns_that_a_variant_leaves_out() -> None:
    found = Results()
    rows = [
        {"variant": "lia", "controller": "lia", "path_manager": "fullmesh", "scheduler": scheduler,
         "cell": {"loss": loss}}
        for scheduler in ("default", "cloning") for loss in ("0", "0.2")
    ]  # fmt: skip
    found.add(SIM, "a", {"rows": rows})
    assert [row["cell"] for row in found.select(SIM, "a", scheduler="cloning")] == [{"loss": "0"}, {"loss": "0.2"}]
    assert len(found.select(SIM, "a", {"loss": "0.2"}, scheduler="cloning", controller="lia")) == 1
    assert found.select(SIM, "a", {"rate": "1Mbit"}) == []
    assert found.select(KERNEL, "a") == []
