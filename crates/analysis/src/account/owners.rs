//! The programs whose ends a service has, and which of them has most.

/// Programs told apart, to bound the memory; of further ones nothing is kept.
const MAX_PROGRAMS: usize = 8;

/// Programs by name: a process of each, and its number of ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners(Vec<(u32, String, u64)>);

impl Owners {
    /// So many more ends of a program.
    pub(super) fn add(&mut self, pid: u32, comm: &str, ends: u64) {
        if let Some((_, _, n)) = self.0.iter_mut().find(|(_, known, _)| known == comm) {
            *n = n.saturating_add(ends);
        } else if self.0.len() < MAX_PROGRAMS {
            self.0.push((pid, comm.to_string(), ends));
        }
    }

    pub(super) fn absorb(&mut self, others: &Owners) {
        for (pid, comm, ends) in &others.0 {
            self.add(*pid, comm, *ends);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one with most ends; of several the first.
    pub(super) fn first(&self) -> Option<(u32, String)> {
        let most = self.0.iter().rev().max_by_key(|(_, _, ends)| *ends);
        most.map(|(pid, comm, _)| (*pid, comm.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_with_most_ends_is_named() {
        let mut owners = Owners::default();
        assert_eq!(owners.first(), None);
        owners.add(7, "curl", 1);
        owners.add(8, "wrk", 1);
        assert_eq!(owners.first(), Some((7, "curl".into())));
        owners.add(9, "wrk", 1);
        assert_eq!(owners.first(), Some((8, "wrk".into())));
        let mut more = Owners::default();
        (0..20).for_each(|i| more.add(i, &format!("program-{i}"), 1));
        more.add(7, "curl", 5);
        owners.absorb(&more);
        assert_eq!(
            owners.first(),
            Some((8, "wrk".into())),
            "nothing is kept of a ninth"
        );
        assert_eq!(owners.0.len(), MAX_PROGRAMS);
    }
}
