//! What the client says to programs that know nothing of the lab's own header, and where their answers end.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Bytes of one line, or of the head of an answer, at most: more is no answer of ours.
const MOST_HEAD: usize = 64 * 1024;

/// A protocol that the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speaks {
    /// HTTP/1.1: a request as it stands; the answer has a Content-Length.
    Http,
    /// Redis: commands, one a line, all sent at once.
    Redis,
    /// PostgreSQL: one SQL statement; each connection opens with a startup message, and wants no password.
    Postgres,
}

impl Speaks {
    /// What is sent first on a connection, if anything: the answer to it is waited for as any other.
    pub(super) fn opening(self) -> Option<Vec<u8>> {
        const STARTUP: &[u8] = b"\x00\x03\x00\x00user\0postgres\0database\0postgres\0\0";
        let postgres = self == Speaks::Postgres;
        postgres.then(|| [&(STARTUP.len() as u32 + 4).to_be_bytes(), STARTUP].concat())
    }

    /// The bytes of a request.
    pub(super) fn request(self, says: &str) -> Vec<u8> {
        match self {
            Speaks::Http => says.into(),
            Speaks::Redis => says
                .lines()
                .flat_map(|l| [l, "\r\n"])
                .collect::<String>()
                .into(),
            Speaks::Postgres => {
                let length = (says.len() as u32 + 5).to_be_bytes();
                [b"Q", &length[..], says.as_bytes(), b"\0"].concat()
            }
        }
    }
}

/// An answer that is being read.
#[derive(Debug)]
pub(super) struct Answer {
    speaks: Speaks,
    /// What came of a line, a head or a message's first bytes that is not complete yet.
    head: Vec<u8>,
    /// Bytes of a body still to come.
    body: u64,
    /// Values or messages still to come after that; of the latter, one that ends the answer.
    left: u64,
    /// The program closes the connection after it.
    pub(super) closes: bool,
    /// What it says went wrong.
    pub(super) error: Option<String>,
}

impl Answer {
    /// Of what was asked by these bytes.
    pub(super) fn to(speaks: Speaks, request: &[u8]) -> Answer {
        let lines = request.iter().filter(|b| **b == b'\n').count() as u64;
        Answer {
            speaks,
            head: Vec::new(),
            body: 0,
            left: if speaks == Speaks::Redis { lines } else { 1 },
            closes: false,
            error: None,
        }
    }

    /// Takes bytes, and says whether the answer is complete, as one that makes no sense is at once.
    pub(super) fn take(&mut self, bytes: &[u8]) -> bool {
        let whole = self.read(bytes);
        whole.unwrap_or_else(|why| {
            (self.error, self.closes) = (Some(why.into()), true);
            true
        })
    }

    fn read(&mut self, mut bytes: &[u8]) -> Result<bool, &'static str> {
        while !bytes.is_empty() {
            if self.body > 0 {
                let most = usize::try_from(self.body).unwrap_or(usize::MAX);
                let n = bytes.len().min(most);
                self.body -= n as u64;
                bytes = &bytes[n..];
                continue;
            }
            self.head.push(bytes[0]);
            bytes = &bytes[1..];
            if self.head.len() > MOST_HEAD {
                return Err("an answer without an end");
            }
            if self.is_whole() {
                let head = std::mem::take(&mut self.head);
                match self.speaks {
                    Speaks::Http => self.http(&head)?,
                    Speaks::Redis => self.redis(&head)?,
                    Speaks::Postgres => self.postgres(&head)?,
                }
            }
        }
        Ok(self.left == 0 && self.body == 0)
    }

    fn is_whole(&self) -> bool {
        match self.speaks {
            Speaks::Http => self.head.ends_with(b"\r\n\r\n"),
            Speaks::Redis => self.head.ends_with(b"\r\n"),
            // A type, and the length of what follows, which counts itself.
            Speaks::Postgres => self.head.len() == 5,
        }
    }

    fn http(&mut self, head: &[u8]) -> Result<(), &'static str> {
        let head = String::from_utf8_lossy(head);
        let status = head.split(' ').nth(1).and_then(|s| s.parse::<u16>().ok());
        let status = status.ok_or("no answer of HTTP")?;
        let of = |name: &str| {
            head.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim())
            })
        };
        let length = of("content-length").and_then(|v| v.parse().ok());
        self.body = length.ok_or("an answer without Content-Length")?;
        self.closes = of("connection").is_some_and(|v| v.eq_ignore_ascii_case("close"));
        self.left = 0;
        if status >= 400 {
            self.error = Some(format!("HTTP {status}"));
        }
        Ok(())
    }

    fn redis(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let text = String::from_utf8_lossy(&line[1..]);
        let number = || text.trim().parse::<i64>().map_err(|_| "no answer of redis");
        self.left = self.left.saturating_sub(1);
        match line[0] {
            b'+' | b':' => {}
            b'-' => self.error = text.split_whitespace().next().map(String::from),
            // A null has no body, and a body ends as a line does.
            b'$' => self.body = u64::try_from(number()?).map_or(0, |n| n.saturating_add(2)),
            b'*' => {
                self.left = self
                    .left
                    .saturating_add(u64::try_from(number()?).unwrap_or(0))
            }
            _ => return Err("no answer of redis"),
        }
        Ok(())
    }

    fn postgres(&mut self, head: &[u8]) -> Result<(), &'static str> {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        self.body = u64::from(length)
            .checked_sub(4)
            .ok_or("no answer of postgres")?;
        match head[0] {
            // Ready for the next query.
            b'Z' => self.left = 0,
            b'E' => self.error = Some("ERROR".into()),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What becomes of an answer, however it is cut: complete with its last byte and not before.
    fn heard(speaks: Speaks, says: &str, answer: &[u8]) -> Answer {
        let request = speaks.request(says);
        for piece in [1, 3, answer.len()] {
            let mut whole = Answer::to(speaks, &request);
            let mut seen = 0;
            for bytes in answer.chunks(piece) {
                seen += bytes.len();
                assert_eq!(whole.take(bytes), seen == answer.len(), "after {seen}");
            }
            if piece == answer.len() {
                return whole;
            }
        }
        unreachable!("the last piece is all of it")
    }

    /// It is no answer, and the connection is of no further use.
    fn broken(speaks: Speaks, bytes: &[u8]) {
        let mut answer = Answer::to(speaks, b"\n");
        assert!(answer.take(bytes) && answer.closes && answer.error.is_some());
    }

    #[test]
    fn an_answer_of_http_is_as_long_as_it_says() {
        let get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        let ok = b"HTTP/1.1 200 OK\r\nDate: x\r\ncontent-length: 5\r\n\r\n12345";
        let answer = heard(Speaks::Http, get, ok);
        assert_eq!((answer.error, answer.closes), (None, false));
        let bad = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let answer = heard(Speaks::Http, get, bad);
        assert_eq!(
            (answer.error.as_deref(), answer.closes),
            (Some("HTTP 502"), true)
        );
        broken(Speaks::Http, b"HTTP/1.1 200 OK\r\n\r\n");
        broken(Speaks::Http, &vec![b'x'; MOST_HEAD + 1]);
    }

    #[test]
    fn redis_answers_each_line() {
        let says = "GET a\nGET b\nLRANGE l 0 1\nINCR n\nNO";
        let answer = b"$3\r\nabc\r\n$-1\r\n*2\r\n$1\r\nx\r\n:7\r\n:1\r\n-ERR unknown\r\n";
        assert_eq!(
            heard(Speaks::Redis, says, answer).error.as_deref(),
            Some("ERR")
        );
        assert_eq!(Speaks::Redis.request("PING"), b"PING\r\n");
        broken(Speaks::Redis, b"what\r\n");
    }

    #[test]
    fn postgres_is_ready_when_it_says_so() {
        assert_eq!(
            Speaks::Postgres.request("SELECT 1"),
            b"Q\x00\x00\x00\x0dSELECT 1\0"
        );
        let opening = Speaks::Postgres.opening().unwrap();
        assert_eq!(opening.len(), usize::from(opening[3]));
        let answer = b"E\x00\x00\x00\x06no\x5a\x00\x00\x00\x05I";
        assert_eq!(
            heard(Speaks::Postgres, "x", answer).error.as_deref(),
            Some("ERROR")
        );
        broken(Speaks::Postgres, b"Z\0\0\0\0");
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read(bytes: Vec<u8>, which in 0..3_usize) {
            let speaks = [Speaks::Http, Speaks::Redis, Speaks::Postgres][which];
            let _ = Answer::to(speaks, b"a\nb\n").take(&bytes);
        }
    }
}
