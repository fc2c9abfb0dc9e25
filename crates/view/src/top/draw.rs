//! The picture: a head that says how fresh and how whole everything is, the panes, a foot.

use std::cmp::Reverse;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use unicode_width::UnicodeWidthStr;

use super::about::About;
use super::findings::{EXPLAIN, Findings, Progress};
use super::panes::{self, Content};
use super::snapshot::Snapshot;
use super::state::{Open, Pane, Seen, State, Target};
use super::table::{self, cut};
use super::{detail, help};
use crate::escape::escape;
use crate::how::How;
use crate::numbers::{age, bits_per_s, rate as per_s};
use crate::style::Look;

/// A mark and a blank before each line.
const MARK: usize = 2;

/// One for each pane.
type PerPane<T> = [T; Pane::ALL.len()];

/// Everything that is shown, before it is known where.
pub struct Picture {
    contents: PerPane<Content>,
    /// The line of each pane that is selected.
    selected: PerPane<usize>,
    open: Option<Vec<(Look, String)>>,
    head: Vec<(Look, String)>,
    span: (u64, u64),
    step_ns: u64,
}

impl Picture {
    /// Of a moment.
    pub fn new(
        state: &State,
        snapshot: &Snapshot,
        findings: &Findings,
        about: &About,
        (span, step_ns): ((u64, u64), u64),
        width: u16,
    ) -> Picture {
        let content = |(pane, _)| panes::content(pane, state, snapshot, findings, about);
        let contents = Pane::ALL.map(content);
        let selected = Pane::ALL.map(|(pane, _)| {
            let targets = contents[pane as usize].targets();
            state.place(pane, &targets)
        });
        let width = usize::from(width);
        let open = state.open.as_ref().map(|(open, _)| match open {
            Open::Help => help::lines(width),
            Open::Detail(target) => detail::lines(target, snapshot, findings, &about.how, width),
        });
        Picture {
            contents,
            selected,
            open,
            head: head(state, snapshot, findings, about),
            span,
            step_ns,
        }
    }

    /// What keys depend on, when it is shown on a screen of this size.
    pub fn seen(&self, focus: Pane, width: u16, height: u16) -> Seen {
        let areas = self.areas(focus, Rect::new(0, 0, width, height));
        let body = areas.body.height;
        let page = match self.open {
            Some(_) => body,
            None => areas.panes[focus as usize].height.saturating_sub(2),
        };
        let mut all: PerPane<Vec<Target>> = Default::default();
        for (all, content) in all.iter_mut().zip(&self.contents) {
            *all = content.targets();
        }
        Seen {
            targets: all,
            page: page.into(),
            lines: self.open.as_ref().map_or(0, Vec::len),
            span: self.span,
            step_ns: self.step_ns,
        }
    }

    fn areas(&self, focus: Pane, all: Rect) -> Areas {
        let head = (self.head.len() as u16).min(all.height.saturating_sub(1));
        let foot = u16::from(all.height > 2);
        let body = Rect {
            y: all.y + head,
            height: all.height.saturating_sub(head + foot),
            ..all
        };
        let wants = Pane::ALL.map(|(pane, _)| self.wants(pane, focus, all.width));
        let heights = share_out(body.height, focus, wants);
        let mut y = body.y;
        let panes = heights.map(|height| {
            let area = Rect { y, height, ..body };
            y += height;
            area
        });
        Areas { body, panes }
    }
}

struct Areas {
    body: Rect,
    panes: PerPane<Rect>,
}

/// How many lines a pane would fill, and how few are of use.
#[derive(Clone, Copy, Default)]
struct Wants {
    least: u16,
    all: u16,
    /// Something in it warns.
    warns: bool,
}

impl Picture {
    /// A pane without lines wants none, unless the reader asked for it by its key.
    fn wants(&self, pane: Pane, focus: Pane, width: u16) -> Wants {
        /// Title, header, and the first line.
        const LEAST: u16 = 3;
        /// The same with the two rates that are always there; one more is for the worst trouble.
        const LEAST_RATES: u16 = 4;
        let content = &self.contents[pane as usize];
        if content.entries.is_empty() {
            let all = if pane == focus || pane == Pane::Findings {
                2
            } else {
                0
            };
            return Wants {
                least: all,
                all,
                warns: false,
            };
        }
        let inner = usize::from(width).saturating_sub(MARK);
        let selected = self.selected[pane as usize];
        let lines = |i: usize| content.lines(i, inner, i == selected).len();
        let all = 2 + (0..content.entries.len()).map(lines).sum::<usize>();
        let all = u16::try_from(all).unwrap_or(u16::MAX);
        let least = match pane {
            Pane::Findings => 2 + lines(selected) as u16,
            Pane::Connections => LEAST_RATES + u16::from(content.warns()),
            _ => LEAST,
        };
        Wants {
            least: least.min(all),
            all,
            warns: content.warns(),
        }
    }
}

/// How many lines each pane gets: none when there is no room for a useful piece of it. Where not all have
/// room, those in which something is wrong have it.
fn share_out(height: u16, focus: Pane, wants: PerPane<Wants>) -> PerPane<u16> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by_key(|i| {
        let first = match Pane::ALL[*i].0 {
            Pane::Findings => 2,
            Pane::Connections => 1,
            _ => 0,
        };
        // A thread kept from its work matters more than one socket of many.
        let later = *i == Pane::Sockets as usize;
        (
            *i != focus as usize,
            Reverse(first),
            !wants[*i].warns,
            later,
            *i,
        )
    });
    let mut got = PerPane::default();
    let mut left = height;
    for &i in &order {
        // The pane that keys go to is always there, but leaves room for another.
        let focused = i == focus as usize;
        let least = if focused {
            wants[i].least.min((height / 2).max(4))
        } else {
            wants[i].least
        };
        if least <= left || focused {
            got[i] = least.min(left);
            left -= got[i];
        }
    }
    // The rest goes line by line to those that have more to show, twice as fast to the focus.
    while left > 0 {
        let before = left;
        for i in order.iter().copied().chain([focus as usize]) {
            if got[i] > 0 && got[i] < wants[i].all && left > 0 {
                got[i] += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    got
}

/// The first lines: what this is of, how fresh the findings are, what is missing.
fn head(
    state: &State,
    snapshot: &Snapshot,
    findings: &Findings,
    about: &About,
) -> Vec<(Look, String)> {
    let clock = about.how.time(snapshot.now_ns);
    let clock = clock.get(..8).unwrap_or(&clock);
    let mode = match (about.live, state.cursor_ns) {
        (true, None) => "live",
        (true, Some(_)) => "STOPPED at",
        (false, _) => "recorded",
    };
    let first = format!(
        "tcpwhy top  {}  {mode} {clock}  window {:.0} s",
        about.host,
        snapshot.seconds()
    );
    let explained = match (findings.progress, about.live) {
        (Progress::Waiting, _) => "explaining: not yet done".to_string(),
        (Progress::Failed, _) => "explaining: failed".into(),
        (Progress::Explained { .. }, false) => "explained: the whole recording".into(),
        (
            Progress::Explained {
                from_ns,
                to_ns,
                paced,
            },
            true,
        ) => {
            let mut says = format!(
                "findings of the last {}, {} old",
                age(to_ns.saturating_sub(from_ns)),
                age(snapshot.now_ns.saturating_sub(to_ns)),
            );
            if paced {
                says += "; updated less often, to save CPU";
            }
            says
        }
    };
    let mut head = vec![(Look::Fix, first), (Look::Plain, explained)];
    head.extend(interfaces(snapshot, &about.how));
    // Live, the recorder itself says what is lost, as it is lost; for a recording, explain knows it.
    let whole = about.live || findings.notes.is_empty();
    let health = about.health.iter().filter(|_| whole).cloned();
    let notes = findings.notes.iter();
    let notes = notes.filter(|n| n.kind.is_hole() && (!about.live || n.source == EXPLAIN));
    let missing: Vec<String> = health
        .chain(notes.map(|n| format!("{}: {}", n.source, n.says)))
        .collect();
    if !missing.is_empty() {
        head.push((Look::Warning, format!("not whole: {}", missing.join("; "))));
    }
    let slowed = about.slowed.iter().cloned();
    head.extend(slowed.map(|says| (Look::Plain, says)));
    head
}

/// Interfaces shown in the head: as many as a wide screen has room for.
const LINKS: usize = 4;

/// What goes through interfaces, those that lose first, then the busiest; `None` when nothing does.
fn interfaces(snapshot: &Snapshot, how: &How) -> Option<(Look, String)> {
    let over_s = snapshot.seconds();
    let rate = |sum: f64| if over_s > 0.0 { sum / over_s } else { 0.0 };
    let bits = |bytes: f64| bits_per_s((rate(bytes) * 8.0) as u64);
    let says = snapshot.links.iter().take(LINKS).map(|((netns, name), l)| {
        let lost = if l.lost > 0.0 {
            format!(" LOST {}/s", per_s(rate(l.lost)))
        } else {
            String::new()
        };
        format!(
            "{name}@{}{lost} rx {} {}p/s tx {} {}p/s",
            how.netns(*netns),
            bits(l.rx_bytes),
            per_s(rate(l.rx_packets)),
            bits(l.tx_bytes),
            per_s(rate(l.tx_packets)),
        )
    });
    let says: Vec<String> = says.collect();
    let look = if snapshot.links.iter().any(|(_, l)| l.lost > 0.0) {
        Look::Warning
    } else {
        Look::Plain
    };
    (!says.is_empty()).then(|| (look, says.join("  ")))
}

/// Paints the picture. The state was [settled](State::settle) to it.
pub fn draw(frame: &mut Frame, picture: &Picture, state: &State, about: &About) {
    let all = frame.area();
    let paint = Paint(about.colour);
    let areas = picture.areas(state.focus, all);
    frame.render_widget(Clear, all);
    let lines = picture.head.iter().map(|(look, text)| {
        let text = cut(&escape(text), all.width.into());
        Line::styled(text, paint.of(*look))
    });
    let head = Rect {
        height: areas.body.y.saturating_sub(all.y),
        ..all
    };
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), head);
    match (&picture.open, &state.open) {
        (Some(lines), Some((_, scroll))) => {
            let shown = lines
                .iter()
                .skip(*scroll)
                .take(areas.body.height.into())
                .map(|(look, text)| Line::styled(text.clone(), paint.of(*look)));
            frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), areas.body);
        }
        _ => {
            for (i, (pane, name)) in Pane::ALL.into_iter().enumerate() {
                let area = areas.panes[i];
                if area.height > 0 {
                    let lines = pane_lines(picture, state, pane, name, area, paint);
                    frame.render_widget(Paragraph::new(lines), area);
                }
            }
        }
    }
    if all.height > 2 {
        let area = Rect {
            y: all.bottom() - 1,
            height: 1,
            ..all
        };
        frame.render_widget(
            Paragraph::new(foot(picture, state, area.width, paint)),
            area,
        );
    }
}

/// Paints what is said before there is anything to show.
pub fn waiting(frame: &mut Frame, says: &str) {
    let all = frame.area();
    let text = format!("tcpwhy top  {}", escape(says));
    frame.render_widget(Clear, all);
    frame.render_widget(Paragraph::new(cut(&text, all.width.into())), all);
}

fn pane_lines<'a>(
    picture: &'a Picture,
    state: &State,
    pane: Pane,
    name: &str,
    area: Rect,
    paint: Paint,
) -> Vec<Line<'a>> {
    let content = &picture.contents[pane as usize];
    let width = usize::from(area.width);
    let focused = pane == state.focus;
    let mut lines = vec![title(content, pane, name, focused, width, paint)];
    if content.entries.is_empty() {
        let text = format!("  {}", escape(&content.nothing));
        lines.push(Line::styled(cut(&text, width), paint.of(Look::Faint)));
        return lines;
    }
    let inner = width.saturating_sub(MARK);
    let header = format!("  {}", table::header(&content.columns, inner));
    lines.push(Line::styled(cut(&header, width), paint.of(Look::Faint)));
    let height = usize::from(area.height);
    let room = height.saturating_sub(lines.len());
    let selected = state.selected(pane);
    let of = |i: usize| content.lines(i, inner, i == selected);
    // The selected line is always among those shown, with as many before it as there is room for.
    let mut first = 0;
    if focused {
        let mut used = of(selected).len();
        first = selected;
        while let Some(before) = first.checked_sub(1)
            && used + of(before).len() <= room
        {
            used += of(before).len();
            first = before;
        }
    }
    for i in first..content.entries.len() {
        if lines.len() >= height {
            break;
        }
        let chosen = focused && i == selected;
        for (n, cells) in of(i).into_iter().enumerate() {
            let mut spans = vec![Span::raw(if chosen && n == 0 { "▸ " } else { "  " })];
            spans.extend(cells.into_iter().map(|(look, text)| {
                let style = paint.of(look);
                Span::styled(
                    text,
                    if chosen {
                        style.add_modifier(Modifier::BOLD)
                    } else {
                        style
                    },
                )
            }));
            lines.push(Line::from(spans));
        }
    }
    lines.truncate(height);
    lines
}

fn title(
    content: &Content,
    pane: Pane,
    name: &str,
    focused: bool,
    width: usize,
    paint: Paint,
) -> Line<'static> {
    let number = pane as usize + 1;
    let n = content.entries.len();
    let mut text = match pane {
        Pane::Connections => format!("─{number} {name} "),
        _ => format!("─{number} {name} ({n}) "),
    };
    if !content.note.is_empty() && !content.entries.is_empty() {
        text += &format!("─ {} ", escape(&content.note));
    }
    let text = cut(&text, width);
    let rule = "─".repeat(width.saturating_sub(text.width()));
    let look = if focused { Look::Fix } else { Look::Faint };
    Line::styled(text + &rule, paint.of(look))
}

fn foot(picture: &Picture, state: &State, width: u16, paint: Paint) -> Line<'static> {
    let width = usize::from(width);
    if let Some(says) = &state.status {
        return Line::styled(cut(&escape(says), width), paint.of(Look::Fix));
    }
    let text = match (&state.typing, &picture.open) {
        (Some(typing), _) => format!("show only lines with: {}_", escape(typing)),
        (None, Some(lines)) => {
            let at = state.open.as_ref().map_or(0, |o| o.1) + 1;
            format!(
                "line {at} of {}  ↑↓ PgUp PgDn read  Esc back  q quit",
                lines.len()
            )
        }
        (None, None) => {
            let filter = if state.filter.is_empty() {
                String::new()
            } else {
                format!("only {:?} (Esc: all)  ", escape(&state.filter))
            };
            format!("{filter}1-7 Tab pane  ↑↓ line  Enter more  y copy fix  ? all keys  q quit")
        }
    };
    Line::styled(cut(&text, width), paint.of(Look::Faint))
}

/// Colours, or their absence.
#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn of(self, look: Look) -> Style {
        let plain = Style::new();
        let bold = plain.add_modifier(Modifier::BOLD);
        match (look, self.0) {
            (Look::Plain, _) => plain,
            (Look::Title, true) => bold.fg(Color::Red),
            (Look::Title | Look::Fix, _) => bold,
            (Look::Heading, _) => bold.add_modifier(Modifier::UNDERLINED),
            (Look::Command, true) => plain.fg(Color::Cyan),
            (Look::Warning, true) => plain.fg(Color::Yellow),
            (Look::Faint, true) => plain.add_modifier(Modifier::DIM),
            (Look::Command | Look::Faint, false) => plain,
            (Look::Warning, false) => bold,
        }
    }
}
