//! The names of threads that are kept apart, those that took most, however often threads rename themselves.

use ahash::{AHashMap, AHashSet, RandomState};
use analysis::words::{count, plural};
use recording::Text;

/// The most names that are kept apart; a dense host has a few hundred programs, whose threads have a thousand names.
/// No picture has room for more.
const MOST: usize = 4_096;
/// What stands for the others.
const OTHERS: &str = "(other names)";
/// Folded names that are counted one by one, a megabyte of them; beyond that, it is only said that there are more.
const COUNTED: usize = 1 << 17;

/// How much each name took.
pub(super) struct Names {
    known: AHashMap<Text, u64>,
    /// By their hashes: they may come again.
    folded: AHashSet<u64>,
    hasher: RandomState,
    /// What stands for the names that are not kept apart.
    others: Text,
}

impl Default for Names {
    fn default() -> Names {
        Names {
            known: AHashMap::new(),
            folded: AHashSet::new(),
            hasher: RandomState::new(),
            others: OTHERS.into(),
        }
    }
}

/// How many names of threads are joined as other names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// As many as were counted.
    pub names: u64,
    /// There were more.
    pub more: bool,
}

impl Folded {
    /// A sentence that says so; `None` when every name is kept apart.
    pub fn says(self) -> Option<String> {
        let names = match (self.names, self.more) {
            (0, _) => return None,
            (names, true) => format!("more than {} names", count(names)),
            (names, false) => plural(names, "name"),
        };
        Some(format!(
            "{names} of threads, those that took least, are folded together as “{OTHERS}”"
        ))
    }
}

impl Names {
    /// Adds what a name took; true when others that took less had to be folded for it.
    pub(super) fn count(&mut self, name: &Text, amount: u64) -> bool {
        if let Some(sum) = self.known.get_mut(name) {
            *sum = sum.saturating_add(amount);
            return false;
        }
        let fold = self.known.len() >= 2 * MOST;
        if fold {
            self.fold();
        }
        self.known.insert(name.clone(), amount);
        fold
    }

    /// Half at once, so that each new name pays for a fixed number of others that are looked at.
    fn fold(&mut self) {
        let mut ranks: Vec<(u64, Text)> = self.known.drain().map(|(name, n)| (n, name)).collect();
        // Ties go by name: what is kept must not depend on the order of a hash map.
        ranks.sort_unstable();
        let kept = ranks.split_off(ranks.len() - MOST);
        let hashes = ranks.iter().map(|(_, name)| self.hasher.hash_one(&**name));
        let room = (COUNTED + 1).saturating_sub(self.folded.len());
        self.folded.extend(hashes.take(room));
        self.known = kept.into_iter().map(|(n, name)| (name, n)).collect();
    }

    /// The name itself, if it is kept apart.
    pub(super) fn told(&self, name: Text) -> Text {
        if self.known.contains_key(&name) {
            name
        } else {
            self.others.clone()
        }
    }

    /// How many were folded.
    pub(super) fn folded(&self) -> Folded {
        let names = self.folded.len().min(COUNTED);
        Folded {
            names: names as u64,
            more: self.folded.len() > COUNTED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_took_most_are_told_apart_and_the_others_counted() {
        let mut names = Names::default();
        let told = |names: &Names, name: &str| names.told(name.into()).to_string();
        names.count(&"busy".into(), 1_000);
        for i in 0..10 * MOST {
            names.count(&format!("brief {i}").into(), 1);
        }
        assert_eq!(told(&names, "busy"), "busy");
        assert_eq!(told(&names, "brief 0"), OTHERS);
        assert!(names.known.len() <= 2 * MOST);
        let folded = names.folded();
        let all = folded.names + names.known.len() as u64;
        assert_eq!((all, folded.more), (10 * MOST as u64 + 1, false));
        assert!(
            folded
                .says()
                .is_some_and(|says| says.contains(" names of threads"))
        );
        assert_eq!(Names::default().folded().says(), None);
    }

    #[test]
    fn what_comes_again_is_not_counted_again() {
        let mut names = Names::default();
        for i in 0..20 * MOST {
            names.count(&format!("{}", i % (3 * MOST)).into(), 1);
        }
        assert!(names.folded().names <= 3 * MOST as u64);
    }
}
