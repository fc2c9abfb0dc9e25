//! What the reader looks at, and what each key changes of it: no terminal, no clock.

use analysis::Activity;
use analysis::account::ServiceKey;
use recording::Text;

/// A pane of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pane {
    /// What explain found.
    #[default]
    Findings,
    /// Rates of connections and of their troubles.
    Connections,
    /// Requests, and whose time they took.
    Requests,
    /// Listeners against their backlog.
    Listeners,
    /// The slowest sockets.
    Sockets,
    /// What threads do with their time.
    Threads,
    /// Hot functions of the kernel.
    Functions,
}

impl Pane {
    /// All of them, in their order on the screen, with their names.
    pub const ALL: [(Pane, &'static str); 7] = [
        (Pane::Findings, "Findings"),
        (Pane::Connections, "Connections"),
        (Pane::Requests, "Requests"),
        (Pane::Listeners, "Listeners"),
        (Pane::Sockets, "Sockets"),
        (Pane::Threads, "Threads"),
        (Pane::Functions, "Functions"),
    ];
}

/// The order of sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SocketOrder {
    /// Sockets in trouble first: those that retransmit, then those whose queues wait longest, then the fullest.
    #[default]
    Trouble,
    /// The longest round trip first.
    Rtt,
    /// The most segments retransmitted first: since the last sample, then ever.
    Retrans,
    /// The lowest rate first, among those that have something to send.
    Slow,
    /// The fullest queues first.
    Queue,
}

impl SocketOrder {
    /// All of them.
    pub const ALL: &'static [SocketOrder] = &[
        SocketOrder::Trouble,
        SocketOrder::Rtt,
        SocketOrder::Retrans,
        SocketOrder::Slow,
        SocketOrder::Queue,
    ];

    /// As the pane's title says it.
    pub fn says(self) -> &'static str {
        match self {
            SocketOrder::Trouble => "trouble first: retransmissions, then what waits longest",
            SocketOrder::Rtt => "longest round trip first",
            SocketOrder::Retrans => "most retransmitted first",
            SocketOrder::Slow => "slowest with data to send first",
            SocketOrder::Queue => "fullest queues first",
        }
    }

    fn next(self) -> SocketOrder {
        SocketOrder::ALL[(self as usize + 1) % SocketOrder::ALL.len()]
    }
}

/// What a line of a pane is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A finding, by its cause and place.
    Finding(String),
    /// A rate.
    Count(Activity),
    /// The requests of a listener or destination.
    Service(ServiceKey),
    /// A listener: its namespace and socket.
    Listener(u32, u64),
    /// A connection: its namespace and socket.
    Socket(u32, u64),
    /// A thread: its process and itself.
    Thread(u32, u32),
    /// A function of the kernel.
    Function(Text),
}

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// Enter.
    Enter,
    /// Escape.
    Esc,
    /// Backspace.
    Backspace,
    /// Tab.
    Tab,
    /// Tab with shift.
    BackTab,
    /// The arrow up.
    Up,
    /// The arrow down.
    Down,
    /// The arrow left.
    Left,
    /// The arrow right.
    Right,
    /// The arrow left with shift.
    FarLeft,
    /// The arrow right with shift.
    FarRight,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
}

/// What a key asks of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing changed.
    Nothing,
    /// The picture changed.
    Redraw,
    /// Write the window as a recording.
    Save,
    /// Write a report of it.
    Report,
    /// Copy the command of the finding.
    Copy,
    /// The reader has seen enough.
    Quit,
}

/// What is on the screen, as far as keys depend on it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What the lines of each pane are about, in their order.
    pub targets: [Vec<Target>; Pane::ALL.len()],
    /// Lines by which a page moves.
    pub page: usize,
    /// Lines of the text that is open, and of it visible at once.
    pub lines: usize,
    /// The time that there is, ns of CLOCK_MONOTONIC.
    pub span: (u64, u64),
    /// How far the time cursor moves, ns.
    pub step_ns: u64,
}

/// A text that is open over the panes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Open {
    /// What keys do.
    Help,
    /// All about a line.
    Detail(Target),
}

/// A filter longer than this is a cat on the keyboard.
const LONGEST_FILTER: usize = 64;
/// Steps at a time with shift.
const FAR: u64 = 10;

/// What the reader looks at.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The pane that keys go to.
    pub focus: Pane,
    selected: [Selected; Pane::ALL.len()],
    /// The order of sockets.
    pub order: SocketOrder,
    /// Lines without these letters are not shown; empty shows all.
    pub filter: String,
    /// The filter as it is being typed.
    pub typing: Option<String>,
    /// The time that is shown, ns of CLOCK_MONOTONIC; `None` follows the end.
    pub cursor_ns: Option<u64>,
    /// What is open, and the first line of it that is seen.
    pub open: Option<(Open, usize)>,
    /// The result of the last request; until the next key.
    pub status: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct Selected {
    at: usize,
    /// The line that was chosen, followed wherever it goes; until then, the place.
    target: Option<Target>,
}

/// Keys that ask for something which is done elsewhere.
fn asks(key: Key) -> Option<Effect> {
    match key {
        Key::Char('w') => Some(Effect::Save),
        Key::Char('r') => Some(Effect::Report),
        Key::Char('y') => Some(Effect::Copy),
        _ => None,
    }
}

impl State {
    /// The line of a pane that is selected.
    pub fn selected(&self, pane: Pane) -> usize {
        self.selected[pane as usize].at
    }

    /// The selected line of a pane with such lines.
    pub(super) fn place(&self, pane: Pane, targets: &[Target]) -> usize {
        let selected = &self.selected[pane as usize];
        let chosen = selected.target.as_ref();
        let found = chosen.and_then(|t| targets.iter().position(|known| known == t));
        let at = found.unwrap_or(selected.at);
        at.min(targets.len().saturating_sub(1))
    }

    /// Brings the selection back to lines that there are, after the picture changed.
    pub fn settle(&mut self, seen: &Seen) {
        for (pane, _) in Pane::ALL {
            let at = self.place(pane, &seen.targets[pane as usize]);
            self.selected[pane as usize].at = at;
        }
        let most = seen.lines.saturating_sub(seen.page.max(1));
        if let Some((_, scroll)) = &mut self.open {
            *scroll = (*scroll).min(most);
        }
        if let Some(cursor) = self.cursor_ns {
            let (from, to) = seen.span;
            let first = from.saturating_add(seen.step_ns).min(to);
            self.cursor_ns = Some(cursor.clamp(first, to.max(first)));
        }
    }

    /// A key was pressed.
    pub fn key(&mut self, key: Key, seen: &Seen) -> Effect {
        let said = self.status.take().is_some();
        if self.typing.is_none()
            && let Some(asked) = asks(key)
        {
            self.settle(seen);
            return asked;
        }
        let before = (self.open.clone(), self.cursor_ns, self.focus, self.order);
        let selected: Vec<usize> = self.selected.iter().map(|s| s.at).collect();
        let typed = (self.typing.clone(), self.filter.clone());
        let effect = if self.typing.is_some() {
            self.type_filter(key)
        } else if self.open.is_some() {
            self.read(key, seen)
        } else {
            self.browse(key, seen)
        };
        if effect == Effect::Quit {
            return effect;
        }
        self.settle(seen);
        let same = !said
            && before == (self.open.clone(), self.cursor_ns, self.focus, self.order)
            && typed == (self.typing.clone(), self.filter.clone())
            && self.selected.iter().map(|s| s.at).eq(selected);
        if same {
            Effect::Nothing
        } else {
            Effect::Redraw
        }
    }

    fn type_filter(&mut self, key: Key) -> Effect {
        let Some(typing) = &mut self.typing else {
            return Effect::Nothing;
        };
        match key {
            Key::Char(c) if typing.chars().count() < LONGEST_FILTER && !c.is_control() => {
                typing.push(c);
            }
            Key::Backspace if typing.pop().is_none() => self.typing = None,
            Key::Enter => self.filter = self.typing.take().unwrap_or_default(),
            Key::Esc => self.typing = None,
            _ => {}
        }
        Effect::Redraw
    }

    /// Keys while a text is open.
    fn read(&mut self, key: Key, seen: &Seen) -> Effect {
        let Some((open, scroll)) = &mut self.open else {
            return Effect::Nothing;
        };
        let page = seen.page.max(1);
        match key {
            Key::Char('q') => return Effect::Quit,
            Key::Char('?') if *open == Open::Help => self.open = None,
            Key::Char('?') => self.open = Some((Open::Help, 0)),
            Key::Esc | Key::Backspace => self.open = None,
            Key::Up | Key::Char('k') => *scroll = scroll.saturating_sub(1),
            Key::Down | Key::Char('j') | Key::Enter => *scroll = scroll.saturating_add(1),
            Key::PageUp => *scroll = scroll.saturating_sub(page),
            Key::PageDown => *scroll = scroll.saturating_add(page),
            Key::Char('g') | Key::Home => *scroll = 0,
            Key::Char('G') | Key::End => *scroll = usize::MAX,
            other => self.travel(other, seen),
        }
        Effect::Redraw
    }

    fn browse(&mut self, key: Key, seen: &Seen) -> Effect {
        let targets = &seen.targets[self.focus as usize];
        let last = targets.len().saturating_sub(1);
        let page = seen.page.max(1);
        let at = self.selected(self.focus);
        match key {
            Key::Char('q') => return Effect::Quit,
            Key::Char('?') => self.open = Some((Open::Help, 0)),
            Key::Char('/') => self.typing = Some(self.filter.clone()),
            Key::Esc => self.filter.clear(),
            Key::Char('s') => {
                self.order = self.order.next();
                self.selected[Pane::Sockets as usize] = Selected::default();
            }
            Key::Char(c @ '1'..='9') => {
                let pane = Pane::ALL.get(c as usize - '1' as usize);
                self.focus = pane.map_or(self.focus, |(pane, _)| *pane);
            }
            Key::Tab => self.turn(1),
            Key::BackTab => self.turn(Pane::ALL.len() - 1),
            Key::Up | Key::Char('k') => self.select(at.saturating_sub(1), targets),
            Key::Down | Key::Char('j') => self.select((at + 1).min(last), targets),
            Key::PageUp => self.select(at.saturating_sub(page), targets),
            Key::PageDown => self.select(at.saturating_add(page).min(last), targets),
            Key::Char('g') => self.select(0, targets),
            Key::Char('G') => self.select(last, targets),
            Key::Enter => {
                if let Some(target) = targets.get(at) {
                    self.open = Some((Open::Detail(target.clone()), 0));
                }
            }
            other => self.travel(other, seen),
        }
        Effect::Redraw
    }

    fn turn(&mut self, by: usize) {
        self.focus = Pane::ALL[(self.focus as usize + by) % Pane::ALL.len()].0;
    }

    fn select(&mut self, at: usize, targets: &[Target]) {
        // At the top one wants what is at the top, not what was.
        let target = targets.get(at).filter(|_| at > 0).cloned();
        self.selected[self.focus as usize] = Selected { at, target };
    }

    /// Keys that move the time cursor.
    fn travel(&mut self, key: Key, seen: &Seen) {
        let (from, to) = seen.span;
        let now = self.cursor_ns.unwrap_or(to);
        let far = seen.step_ns.saturating_mul(FAR);
        let cursor = match key {
            Key::Char('p' | ' ') => match self.cursor_ns {
                Some(_) => None,
                None => Some(to),
            },
            Key::Left => Some(now.saturating_sub(seen.step_ns)),
            Key::Right => Some(now.saturating_add(seen.step_ns)),
            Key::FarLeft | Key::Char('[') => Some(now.saturating_sub(far)),
            Key::FarRight | Key::Char(']') => Some(now.saturating_add(far)),
            Key::Home => Some(from),
            Key::End => None,
            _ => return,
        };
        // Going forward to the end follows it again; stopping there stays.
        let forward = matches!(key, Key::Right | Key::FarRight | Key::Char(']'));
        self.cursor_ns = cursor.filter(|at| !(forward && *at >= to));
    }
}
