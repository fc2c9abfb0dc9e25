//! A series of runs, each with a mesh of its own: how many are slow, and which one is told.

use super::mesh::Mesh;
use super::params::Params;

/// What a series of meshes came to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    /// Runs in which at least one socket lost options.
    pub(super) with_lost: u32,
    /// Runs in which at least one connection was made from a cookie.
    pub(super) with_cookie: u32,
    /// Runs in which at least one link is slow.
    pub(super) slow: u32,
    /// The first run that is slow.
    first_slow: Option<u32>,
    /// The first run in which no socket lost options.
    first_fast: Option<u32>,
}

impl Series {
    /// Forms every mesh of the series.
    pub(super) fn of(p: &Params, seed: u64) -> Series {
        let mut series = Series {
            with_lost: 0,
            with_cookie: 0,
            slow: 0,
            first_slow: None,
            first_fast: None,
        };
        for nth in 0..p.runs {
            let mesh = Mesh::form(p, seed, nth);
            let (lost, slow) = (mesh.all_lost(p) > 0, mesh.slow_links(p) > 0);
            series.with_cookie += u32::from(mesh.sockets.iter().any(|s| s.cookie));
            series.with_lost += u32::from(lost);
            series.slow += u32::from(slow);
            if slow {
                series.first_slow.get_or_insert(nth);
            }
            if !lost {
                series.first_fast.get_or_insert(nth);
            }
        }
        series
    }

    /// The run that is told second by second: that which `shown` asks for, else the first.
    pub(super) fn shown(&self, p: &Params) -> u32 {
        let wanted = match p.shown {
            1 => self.first_slow,
            2 => self.first_fast,
            _ => None,
        };
        wanted.unwrap_or(0)
    }
}
