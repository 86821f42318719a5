//! A page of lines, tables and bars, as wide as asked for and as tall as it has to be: `status` prints it as text, `top`
//! shows a part of it. All tables of the command are laid out here.

use std::io::IsTerminal;

use ratatui::buffer::Buffer;
use ratatui::crossterm::terminal::size;
use ratatui::layout::{Alignment, Constraint, Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Row, Sparkline, Table, Widget, Wrap};

/// Title, least width, and whether it is of numbers.
#[derive(Clone)]
pub struct Column<'a>(pub &'a str, pub u16, pub bool);

/// Columns of the terminal that stdout is; `None` where it is none.
pub fn terminal() -> Option<u16> {
    let columns = std::io::stdout()
        .is_terminal()
        .then(|| size().ok())
        .flatten()?
        .0;
    (columns > 0).then_some(columns)
}

/// A table alone, as wide as it has to be.
pub fn table(columns: &[Column], rows: Vec<Vec<String>>) -> String {
    table_within(columns, rows, u16::MAX)
}

/// And no wider than so many columns of a terminal: for tables whose last column is words, which go on below.
pub fn table_within(columns: &[Column], rows: Vec<Vec<String>>, most: u16) -> String {
    const GAP: u16 = 2;
    let width = |(i, column): (usize, &Column)| column.width(rows.iter().map(|cells| &cells[i]));
    let width = columns.iter().enumerate().map(width).sum::<usize>();
    let gaps = usize::from(GAP) * columns.len().saturating_sub(1);
    let width = u16::try_from(width + gaps).unwrap_or(u16::MAX);
    let mut sheet = Sheet::new(width.min(most));
    sheet.gap = GAP;
    let plain = rows.into_iter().map(|cells| (Style::new(), cells));
    sheet.table(columns, plain.collect());
    sheet.text().trim_start_matches('\n').to_owned()
}

impl Column<'_> {
    fn width<'a>(&self, cells: impl Iterator<Item = &'a String>) -> usize {
        let least = usize::from(self.1).max(self.0.chars().count());
        cells
            .map(|cell| cell.chars().count())
            .fold(least, usize::max)
    }
}

/// The rows that it takes at that width, one at least.
fn wrapped(text: &str, width: u16) -> Vec<String> {
    if text.chars().count() <= width.into() {
        return vec![text.to_owned()];
    }
    // Where a word does not fit, the row before it and its own are full together.
    let most = text.chars().count() / usize::from(width / 2).max(1) + 1;
    let most = u16::try_from(most).unwrap_or(u16::MAX);
    let mut page = Sheet::new(width);
    let area = page.grow(most.into());
    let paragraph = Paragraph::new(text).wrap(Wrap { trim: false });
    paragraph.render(area, &mut page.page);
    let rows = page.text();
    rows.trim_end().lines().map(str::to_owned).collect()
}

pub struct Sheet {
    page: Buffer,
    /// Between two columns.
    gap: u16,
}

impl Sheet {
    pub fn new(width: u16) -> Sheet {
        Sheet {
            page: Buffer::empty(Rect::new(0, 0, width, 0)),
            gap: 1,
        }
    }

    pub fn height(&self) -> u16 {
        self.page.area.height
    }

    /// So many rows more.
    fn grow(&mut self, rows: usize) -> Rect {
        let Rect { width, height, .. } = self.page.area;
        let rows = u16::try_from(rows)
            .unwrap_or(u16::MAX)
            .min(u16::MAX - height);
        self.page.resize(Rect::new(0, 0, width, height + rows));
        Rect::new(0, height, width, rows)
    }

    /// On as many rows as it takes.
    pub fn line(&mut self, line: &str) {
        let text = Text::from_iter(wrapped(line, self.page.area.width));
        let area = self.grow(text.height());
        text.render(area, &mut self.page);
    }

    pub fn title(&mut self, line: &str) {
        let area = self.grow(2);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        Line::styled(line, bold).render(area.rows().next_back().unwrap_or(area), &mut self.page);
    }

    /// Below an empty line and a header; neither where no column has a title. Columns are as wide as what is in them. Without
    /// room the last ones give way: words go on below, as long as there is room for words.
    pub fn table(&mut self, columns: &[Column], rows: Vec<(Style, Vec<String>)>) {
        const WORDS: usize = 8;
        let mut left = self.page.area.width;
        let mut widths = Vec::new();
        for (i, column) in columns.iter().enumerate() {
            let wanted = column.width(rows.iter().map(|(_, cells)| &cells[i]));
            // A part of a number says something else.
            let least = if column.2 { wanted } else { wanted.min(WORDS) };
            if left == 0 || least > left.into() {
                break;
            }
            let width = wanted.min(left.into()) as u16;
            widths.push(width);
            left = left.saturating_sub(width + self.gap);
        }
        let cells = |texts: Vec<String>| {
            let shown = texts.into_iter().zip(columns).zip(&widths);
            let texts = shown.map(|((text, column), width)| {
                let side = match column.2 {
                    true => Alignment::Right,
                    false => Alignment::Left,
                };
                Text::from_iter(wrapped(&text, *width)).alignment(side)
            });
            let texts: Vec<Text> = texts.collect();
            let height = texts.iter().map(Text::height).max().unwrap_or(1);
            (height, Row::new(texts).height(height as u16))
        };
        let titles: Vec<String> = columns.iter().map(|c| c.0.to_owned()).collect();
        let titled = titles.iter().any(|title| !title.is_empty());
        let (tall, header) = cells(titles);
        let mut height = if titled { tall + 1 } else { 0 };
        let mut body = Vec::new();
        for (style, texts) in rows {
            let (rows, row) = cells(texts);
            height += rows;
            body.push(row.style(style));
        }
        let lengths = widths.iter().map(|width| Constraint::Length(*width));
        let mut table = Table::new(body, lengths).column_spacing(self.gap);
        if titled {
            let bold = Style::new().add_modifier(Modifier::BOLD);
            table = table.header(header.style(bold).top_margin(1));
        }
        let area = self.grow(height);
        Widget::render(table, area, &mut self.page);
    }

    /// A row of bars, each up to `most`.
    pub fn bars(&mut self, name: &str, values: impl Iterator<Item = u64>, most: u64) {
        const NAME: u16 = 16;
        let area = self.grow(1);
        Line::raw(name).render(area, &mut self.page);
        let bars = Rect::new(NAME, area.y, area.width.saturating_sub(NAME), area.height);
        let values: Vec<u64> = values.collect();
        Sparkline::default()
            .data(values)
            .max(most)
            .render(bars, &mut self.page);
    }

    /// The rows from `first` on, as many as there is room for.
    pub fn show(&self, first: u16, area: Rect, screen: &mut Buffer) {
        for at in area.positions() {
            let from = Position::new(at.x - area.x, at.y - area.y + first);
            if let (Some(cell), Some(shown)) = (self.page.cell(from), screen.cell_mut(at)) {
                *shown = cell.clone();
            }
        }
    }

    pub fn text(&self) -> String {
        let mut out = String::new();
        for row in self.page.area.rows() {
            let cells = row.positions().filter_map(|at| self.page.cell(at));
            let line: String = cells.map(|c| c.symbol()).collect();
            out += line.trim_end();
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(width: u16) -> Sheet {
        let mut sheet = Sheet::new(width);
        sheet.line("head");
        let row = |path: &str, rate: &str, why: &str| {
            (
                Style::new(),
                vec![path.to_owned(), rate.to_owned(), why.to_owned()],
            )
        };
        sheet.table(
            &[
                Column("path", 6, false),
                Column("Mbit/s", 0, true),
                Column("why", 0, false),
            ],
            vec![
                row("wlan0", "8.1", "it loses packets"),
                row("a-long-name", "0.0", ""),
            ],
        );
        sheet
    }

    #[test]
    fn columns_fit_what_is_in_them() {
        assert_eq!(
            sheet(80).text(),
            "head\n\npath        Mbit/s why\nwlan0          8.1 it loses packets\na-long-name    0.0\n"
        );
    }

    #[test]
    fn a_long_line_goes_on_below_and_loses_no_word() {
        for width in 1..60 {
            let words = "programs that ask for TCP get MPTCP, and those that do not: not";
            let mut sheet = Sheet::new(width);
            sheet.line(words);
            sheet.line("");
            sheet.line("  end");
            let text = sheet.text();
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines.iter().all(|l| l.len() <= width.into()), "{text}");
            let letters = |text: &str| text.split_whitespace().collect::<String>();
            assert_eq!(letters(&text), letters(words) + "end", "{width}");
            if width > 7 {
                assert_eq!(lines[lines.len() - 2..], ["", "  end"], "{text}");
                let all = lines[..lines.len() - 2].join(" ");
                assert_eq!(all, words, "{width}");
            }
        }
    }

    #[test]
    fn without_titles_there_is_no_header() {
        let rows = [["a", "1"], ["long", ""]].map(|row| row.map(str::to_owned).to_vec());
        let columns = [Column("", 0, false), Column("", 0, true)];
        assert_eq!(table(&columns, rows.to_vec()), "a     1\nlong\n");
    }

    #[test]
    fn a_table_of_words_keeps_within_a_terminal() {
        let rows = vec![vec![
            "pilot".to_owned(),
            "packs a path as full as it can".to_owned(),
        ]];
        let columns = [Column("", 0, false), Column("", 0, false)];
        assert_eq!(
            table_within(&columns, rows, 20),
            [
                "pilot  packs a path",
                "       as full as it",
                "       can",
                ""
            ]
            .join("\n")
        );
    }

    #[test]
    fn without_room_the_last_columns_give_way() {
        let text = sheet(27).text();
        assert!(
            text.contains("\nwlan0          8.1 it loses\n                   packets\na-long"),
            "{text}"
        );
        for width in [12, 14, 17] {
            let text = sheet(width).text();
            assert_eq!(text, "head\n\npath\nwlan0\na-long-name\n");
        }
        assert!(sheet(8).text().ends_with("\na-long-n\name\n"));
        assert!(sheet(26).text().ends_with("\na-long-name    0.0\n"));
    }

    #[test]
    fn a_part_is_shown() {
        let page = sheet(80);
        let area = Rect::new(0, 0, 11, 2);
        let mut screen = Buffer::empty(area);
        page.show(3, area, &mut screen);
        assert_eq!(screen, Buffer::with_lines(["wlan0      ", "a-long-name"]));
    }
}
