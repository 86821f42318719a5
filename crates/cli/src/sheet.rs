//! A page of lines, tables and bars, as wide as asked for and as tall as it has to be: `status` prints it as text, `top`
//! shows a part of it. All tables of the command are laid out here.

use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Constraint, Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Row, Sparkline, Table, Widget};

/// Title, least width, and whether it is of numbers.
#[derive(Clone)]
pub struct Column(pub &'static str, pub u16, pub bool);

/// A table alone, as wide as it has to be.
pub fn table(columns: &[Column], rows: Vec<Vec<String>>) -> String {
    const GAP: u16 = 2;
    let width = |(i, column): (usize, &Column)| column.width(rows.iter().map(|cells| &cells[i]));
    let width = columns.iter().enumerate().map(width).sum::<usize>();
    let gaps = usize::from(GAP) * columns.len().saturating_sub(1);
    let mut sheet = Sheet::new(u16::try_from(width + gaps).unwrap_or(u16::MAX));
    sheet.gap = GAP;
    let plain = rows.into_iter().map(|cells| (Style::new(), cells));
    sheet.table(columns, plain.collect());
    sheet.text().trim_start_matches('\n').to_owned()
}

impl Column {
    fn width<'a>(&self, cells: impl Iterator<Item = &'a String>) -> usize {
        let least = usize::from(self.1).max(self.0.chars().count());
        cells
            .map(|cell| cell.chars().count())
            .fold(least, usize::max)
    }
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

    pub fn line(&mut self, line: &str) {
        let area = self.grow(1);
        Line::raw(line).render(area, &mut self.page);
    }

    pub fn title(&mut self, line: &str) {
        let area = self.grow(2);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        Line::styled(line, bold).render(area.rows().next_back().unwrap_or(area), &mut self.page);
    }

    /// Below an empty line. Columns are as wide as what is in them; the last ones give way where there is no room.
    pub fn table(&mut self, columns: &[Column], rows: Vec<(Style, Vec<String>)>) {
        let mut left = self.page.area.width;
        let mut widths = Vec::new();
        for (i, column) in columns.iter().enumerate() {
            let wanted = column.width(rows.iter().map(|(_, cells)| &cells[i]));
            // A part of a number says something else.
            if left == 0 || (column.2 && wanted > left.into()) {
                break;
            }
            let width = wanted.min(left.into()) as u16;
            widths.push(Constraint::Length(width));
            left = left.saturating_sub(width + self.gap);
        }
        let cells = |texts: Vec<String>| {
            let shown = texts.into_iter().zip(columns).take(widths.len());
            let texts = shown.map(|(text, column)| {
                let side = match column.2 {
                    true => Alignment::Right,
                    false => Alignment::Left,
                };
                Text::from(text).alignment(side)
            });
            Row::new(texts.collect::<Vec<_>>())
        };
        let header = cells(columns.iter().map(|column| column.0.to_owned()).collect());
        let area = self.grow(rows.len() + 2);
        let body: Vec<Row> = rows
            .into_iter()
            .map(|(style, texts)| cells(texts).style(style))
            .collect();
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let table = Table::new(body, widths)
            .header(header.style(bold).top_margin(1))
            .column_spacing(self.gap);
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
    fn without_room_the_last_columns_give_way() {
        let text = sheet(24).text();
        assert!(text.contains("wlan0          8.1 it lo\n"), "{text}");
        for width in [12, 14, 17] {
            let text = sheet(width).text();
            assert_eq!(text, "head\n\npath\nwlan0\na-long-name\n");
        }
        assert!(sheet(8).text().ends_with("\na-long-n\n"));
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
