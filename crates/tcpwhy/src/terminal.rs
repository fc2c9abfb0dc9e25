//! The terminal while a screen fills it: taken over, and given back however that ends.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::panic;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
use view::top::Key;

/// The terminal, taken over until this is dropped.
pub struct Terminal {
    inner: ratatui::Terminal<CrosstermBackend<File>>,
}

/// What the reader did.
pub enum Input {
    /// Pressed a key that means something.
    Key(Key),
    /// Changed the terminal's size.
    Resize,
}

/// One clear line when there is no terminal to fill.
pub fn require() -> Result<()> {
    if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        bail!("top needs a terminal; for a pipe use `tcpwhy stat` or `tcpwhy explain`");
    }
    Ok(())
}

impl Terminal {
    /// Takes it over.
    pub fn take() -> Result<Terminal> {
        // A file of our own: a panic of any thread must be able to write to it, whoever holds the
        // lock of stdout.
        let out = own_stdout()?;
        let mut early = own_stdout()?;
        enable_raw_mode().context("taking over the terminal")?;
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
        // From here on, whatever happens, it is given back.
        let taken = interruptible()
            .and_then(|()| execute!(early, EnterAlternateScreen))
            .and_then(|()| ratatui::Terminal::new(CrosstermBackend::new(out)));
        match taken {
            Ok(inner) => Ok(Terminal { inner }),
            Err(e) => {
                give_back();
                Err(e).context("taking over the terminal")
            }
        }
    }

    /// Columns and lines.
    pub fn size(&self) -> Result<(u16, u16)> {
        let size = self
            .inner
            .size()
            .context("asking for the terminal's size")?;
        Ok((size.width, size.height))
    }

    /// Paints a picture.
    pub fn draw(&mut self, paint: impl FnOnce(&mut ratatui::Frame)) -> Result<()> {
        self.inner.draw(paint).context("writing to the terminal")?;
        Ok(())
    }

    /// Sends a sequence that moves nothing on the screen.
    pub fn send(&mut self, sequence: &str) -> Result<()> {
        let out = self.inner.backend_mut();
        let sent = out.write_all(sequence.as_bytes());
        sent.and_then(|()| Write::flush(out))
            .context("writing to the terminal")
    }

    /// What the reader does within this time.
    pub fn input(&mut self, within: Duration) -> Result<Option<Input>> {
        // Of a terminal that has gone crossterm reads for ever; so it is asked only while there is one.
        let pressed = wait(within)?;
        let read = || -> io::Result<Option<Event>> {
            if event::poll(Duration::ZERO)? {
                event::read().map(Some)
            } else {
                Ok(None)
            }
        };
        let event = match read() {
            // Of a key that comes with a change of size crossterm was told, and forgot: it would
            // read it with the next key, and we should ask in vain until then.
            Ok(None) if pressed => tell_again().and_then(|()| read()),
            event => event,
        };
        let event = match event {
            Ok(event) => event,
            // A signal: whoever looks at its flag knows what to do.
            Err(e) if e.kind() == io::ErrorKind::Interrupted => None,
            Err(e) => return Err(e).context("reading from the terminal"),
        };
        Ok(match event {
            Some(Event::Resize(..)) => Some(Input::Resize),
            Some(Event::Key(key)) => meaning(key).map(Input::Key),
            _ => None,
        })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Ctrl-C is a signal, as everywhere: it ends what reads no keys yet, too. Ctrl-Z and Ctrl-\ are keys.
fn interruptible() -> io::Result<()> {
    const NONE: u8 = 0;
    let stdin = io::stdin();
    let mut modes = tcgetattr(&stdin)?;
    modes.local_modes |= LocalModes::ISIG;
    modes.special_codes[SpecialCodeIndex::VSUSP] = NONE;
    modes.special_codes[SpecialCodeIndex::VQUIT] = NONE;
    Ok(tcsetattr(&stdin, OptionalActions::Now, &modes)?)
}

/// Makes the kernel tell whoever waits for keys once more that there are some: it does after each
/// change of the terminal's attributes, though they stay the same.
fn tell_again() -> io::Result<()> {
    let stdin = io::stdin();
    let same = tcgetattr(&stdin)?;
    Ok(tcsetattr(&stdin, OptionalActions::Now, &same)?)
}

/// Waits for keys, or for a signal; whether there are keys. An error when the terminal has gone.
fn wait(within: Duration) -> Result<bool> {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let within = Timespec::try_from(within).ok();
    match rustix::event::poll(&mut fds, within.as_ref()) {
        Err(e) if e != rustix::io::Errno::INTR => Err(e).context("waiting for the terminal"),
        _ if fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) => {
            bail!("the terminal has gone")
        }
        _ => Ok(fds[0].revents().contains(PollFlags::IN)),
    }
}

fn own_stdout() -> Result<File> {
    let own = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3).context("taking over stdout")?;
    Ok(File::from(own))
}

/// As it was before. Safe to do twice; what fails cannot be helped any more.
fn give_back() {
    let _ = disable_raw_mode();
    if let Ok(mut out) = own_stdout() {
        let _ = execute!(out, LeaveAlternateScreen, Show);
    }
}

fn meaning(key: KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let shift = key.modifiers.contains(KeyModifiers::SHIFT);
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char(_) if control => return None,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left if shift => Key::FarLeft,
        KeyCode::Right if shift => Key::FarRight,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}
