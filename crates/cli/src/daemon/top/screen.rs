//! The terminal: a page that scrolls, and the keys.

use std::io::{self, stdout};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{size, EnterAlternateScreen};
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::{DefaultTerminal, Frame, TerminalOptions, Viewport};

use crate::outcome::{Failure, Outcome};
use crate::sheet::Sheet;
use crate::signals;

/// Where the terminal does not tell its size.
const SIZE: Rect = Rect::new(0, 0, 80, 24);
/// Polling interval of signals.
const GLANCE: Duration = Duration::from_millis(250);

/// Until dropped the terminal is ours.
pub struct Screen {
    terminal: DefaultTerminal,
    /// The page's row that is on top.
    first: u16,
}

impl Screen {
    pub fn open() -> Outcome<Screen> {
        let viewport = match size() {
            Ok((columns, rows)) if columns > 0 && rows > 0 => Viewport::Fullscreen,
            _ => Viewport::Fixed(SIZE),
        };
        let terminal = ratatui::try_init_with_options(TerminalOptions { viewport })
            .and_then(|terminal| execute!(stdout(), EnterAlternateScreen).map(|()| terminal));
        match terminal {
            Ok(terminal) => Ok(Screen { terminal, first: 0 }),
            Err(e) => {
                ratatui::restore();
                Err(failed(&e))
            }
        }
    }

    /// Shows the page until that time, as the keys say; `Break`: the user has seen enough.
    pub fn show(
        &mut self,
        page: impl Fn(u16) -> Sheet,
        until: Instant,
    ) -> Outcome<ControlFlow<()>> {
        loop {
            let first = &mut self.first;
            let mut rows = 0;
            let drawn = self.terminal.draw(|frame| {
                rows = frame.area().height.saturating_sub(1);
                draw(&page(frame.area().width), first, frame);
            });
            drawn.map_err(|e| failed(&e))?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || signals::stopped() {
                return Ok(ControlFlow::Continue(()));
            }
            if !event::poll(left.min(GLANCE)).map_err(|e| failed(&e))? {
                continue;
            }
            match event::read().map_err(|e| failed(&e))? {
                Event::Key(key) if key.kind == KeyEventKind::Press => match scrolled(key, rows) {
                    Some(Move::Quit) => return Ok(ControlFlow::Break(())),
                    Some(Move::By(lines)) => self.first = self.first.saturating_add_signed(lines),
                    Some(Move::To(line)) => self.first = line,
                    None => {}
                },
                // Drawn again, in the new size.
                _ => {}
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn failed(error: &io::Error) -> Failure {
    Failure::Run(format!(
        "top cannot use this terminal ({error}); multipilot status says the same once"
    ))
}

#[derive(Debug, PartialEq, Eq)]
enum Move {
    Quit,
    /// Lines down.
    By(i16),
    To(u16),
}

/// As `less` has them.
fn scrolled(key: KeyEvent, rows: u16) -> Option<Move> {
    let page = i16::try_from(rows.saturating_sub(1).max(1)).unwrap_or(i16::MAX);
    Some(match key.code {
        // The terminal makes no signal of it while keys are read one by one.
        KeyCode::Char('c') if key.modifiers == KeyModifiers::CONTROL => Move::Quit,
        KeyCode::Char('q' | 'Q') => Move::Quit,
        KeyCode::Char('j') | KeyCode::Down | KeyCode::Enter => Move::By(1),
        KeyCode::Char('k') | KeyCode::Up => Move::By(-1),
        KeyCode::Char(' ' | 'f') | KeyCode::PageDown => Move::By(page),
        KeyCode::Char('b') | KeyCode::PageUp => Move::By(-page),
        KeyCode::Char('g') | KeyCode::Home => Move::To(0),
        KeyCode::Char('G') | KeyCode::End => Move::To(u16::MAX),
        _ => return None,
    })
}

/// The page from `first` on, which stays within it, and the keys below.
fn draw(page: &Sheet, first: &mut u16, frame: &mut Frame) {
    let area = frame.area();
    let rows = area.height.saturating_sub(1);
    *first = (*first).min(page.height().saturating_sub(rows));
    let shown = Rect {
        height: rows,
        ..area
    };
    page.show(*first, shown, frame.buffer_mut());
    let below = page.height().saturating_sub(first.saturating_add(rows));
    let more = match (*first, below) {
        (0, 0) => String::new(),
        (above, below) => format!("; {above} lines above, {below} below: ↑ ↓ PgUp PgDn"),
    };
    let keys = format!("q ends this; the daemon goes on{more}");
    let dim = Style::new().add_modifier(Modifier::DIM);
    let last = Rect::new(area.x, area.y + rows, area.width, area.height - rows);
    frame.render_widget(Line::styled(keys, dim), last);
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;
    use ratatui::Terminal;

    use super::*;

    #[test]
    fn a_page_scrolls_and_stays_in_sight() {
        let mut page = Sheet::new(60);
        (0..50).for_each(|i| page.line(&format!("line{i}.")));
        let mut terminal = Terminal::new(TestBackend::new(60, 11)).unwrap();
        let mut first = 0;
        let mut lines = |first: &mut u16| {
            terminal.draw(|frame| draw(&page, first, frame)).unwrap();
            let screen = terminal.backend().to_string();
            (0..50)
                .filter(|i| screen.contains(&format!("line{i}.")))
                .collect::<Vec<_>>()
        };
        assert_eq!(lines(&mut first), (0..10).collect::<Vec<_>>());
        for (key, expected) in [
            (KeyCode::Down, 1),
            (KeyCode::PageDown, 10),
            (KeyCode::PageUp, 1),
            (KeyCode::Char('k'), 0),
            (KeyCode::Up, 0),
            (KeyCode::Char('G'), 40),
            (KeyCode::Char('j'), 40),
            (KeyCode::Home, 0),
        ] {
            match scrolled(KeyEvent::from(key), 10).unwrap() {
                Move::By(lines) => first = first.saturating_add_signed(lines),
                Move::To(line) => first = line,
                Move::Quit => panic!("{key:?}"),
            }
            let all = lines(&mut first);
            let seen = (first, all[0], all.len());
            assert_eq!(seen, (expected, expected.into(), 10), "{key:?}");
        }
    }

    #[test]
    fn ctrl_c_ends_it() {
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(scrolled(ctrl_c, 10), Some(Move::Quit));
        assert_eq!(scrolled(KeyEvent::from(KeyCode::Char('c')), 10), None);
    }
}
