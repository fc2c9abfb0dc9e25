//! The filter as the programs in the kernel read it.

pub use recording::{Filter, Prefix};

use crate::wire::{tw_filter, tw_prefix};

/// A filter's form for the kernel.
pub(crate) trait WireFilter {
    /// As the programs read it; the error says which kind has too many.
    fn wire(&self) -> Result<tw_filter, String>;
}

impl WireFilter for Filter {
    fn wire(&self) -> Result<tw_filter, String> {
        let mut w = tw_filter::default();
        w.n_netns = fill("--netns", &mut w.netns, &self.netns, |&n| n)?;
        w.n_pids = fill("--pid", &mut w.pids, &self.pids, |&p| p)?;
        w.n_comms = fill("--comm", &mut w.comms, &self.comms, |c| comm(c))?;
        w.n_cgroups = fill("--cgroup", &mut w.cgroups, &self.cgroups, |&c| c)?;
        w.n_ports = fill("--port", &mut w.ports, &self.ports, |&p| p.into())?;
        w.n_addrs = fill("--addr", &mut w.addrs, &self.addrs, |p| prefix(*p))?;
        Ok(w)
    }
}

fn fill<T, W>(what: &str, to: &mut [W], from: &[T], wire: impl Fn(&T) -> W) -> Result<u32, String> {
    if from.len() > to.len() {
        let (given, most) = (from.len(), to.len());
        return Err(format!("{what}: {given} are given, {most} are possible"));
    }
    for (to, from) in to.iter_mut().zip(from) {
        *to = wire(from);
    }
    Ok(from.len() as u32)
}

/// The kernel's 16 bytes of a name: cut at 15, padded with zeros.
fn comm(name: &str) -> [u64; 2] {
    let mut bytes = [0; 16];
    let n = name.len().min(15);
    bytes[..n].copy_from_slice(&name.as_bytes()[..n]);
    words(bytes)
}

fn prefix(p: Prefix) -> tw_prefix {
    let mask = p.mask();
    let mut addr = p.addr.0;
    for (a, m) in addr.iter_mut().zip(mask) {
        *a &= m;
    }
    tw_prefix {
        addr: words(addr),
        mask: words(mask),
    }
}

fn words(bytes: [u8; 16]) -> [u64; 2] {
    let (a, b) = bytes.split_at(8);
    [a, b].map(|half| u64::from_ne_bytes(half.try_into().expect("half of sixteen is eight")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_as_the_kernel_cuts_it() {
        assert_eq!(comm("nginx"), words(*b"nginx\0\0\0\0\0\0\0\0\0\0\0"));
        assert_eq!(
            comm("a-very-long-command-name"),
            words(*b"a-very-long-com\0")
        );
    }

    #[test]
    fn too_many_are_refused_by_name() {
        let filter = Filter {
            pids: (0..17).collect(),
            ..Filter::default()
        };
        assert_eq!(
            filter.wire().unwrap_err(),
            "--pid: 17 are given, 16 are possible"
        );
    }
}
