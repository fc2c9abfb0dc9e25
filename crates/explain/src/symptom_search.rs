//! Which causes are nearest to what somebody saw, in his own words: BM25 over what people see of each cause.
//!
//! A document is one line of a cause's `signature`; the cause's title and the first two paragraphs of its page (symptom and
//! mechanism: the third names its look-alikes) stand behind all of its lines with less weight.

mod tokens;

use std::collections::{BTreeMap, BTreeSet};

use crate::cause::Cause;
use crate::causes;
use tokens::{synonyms, tokens};

/// How many causes are listed.
const SHOWN_NEAREST: usize = 5;
/// The usual constants of BM25 (Robertson and Zaragoza, 2009): how soon a repeated word counts no more, and how much a long
/// text is held against it.
const SHOWN_SATURATION: f64 = 1.2;
const SHOWN_LENGTH: f64 = 0.75;
/// What a word on a cause's page counts beside one of what people see.
const SHOWN_PAGE: f64 = 0.4;
/// A word that nobody uses here is taken for one that is spelt nearly so, from this length on.
const SHOWN_MISSPELT: usize = 5;

/// What people see of the causes that are nearest to `words`, the nearest first, each cause once with the line that fits best;
/// empty when no word is known.
pub fn nearest(words: &str) -> Vec<(&'static str, &'static Cause)> {
    let index = Index::new();
    let asked = index.known(tokens(words));
    let mut found: Vec<(f64, &'static str, &'static Cause)> = index
        .causes
        .iter()
        .filter_map(|entry| {
            let lines = entry.lines.iter();
            let scored =
                lines.map(|(seen, text)| (index.score(&asked, text, index.line_length), *seen));
            let (line, seen) = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
            let page = index.score(&asked, &entry.page, index.page_length);
            let score = line + SHOWN_PAGE * page;
            (score > 0.0).then_some((score, seen, entry.cause))
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.2.number.cmp(b.2.number)));
    let mut nearest: Vec<_> = found
        .into_iter()
        .map(|(_, seen, cause)| (seen, cause))
        .collect();
    nearest.truncate(SHOWN_NEAREST);
    // Where fewer have one of the words, what is mistaken for these, and then for those.
    let mut asked = 0;
    while let (Some((_, cause)), true) = (nearest.get(asked), nearest.len() < SHOWN_NEAREST) {
        asked += 1;
        let look_alikes = cause.rivals.iter();
        for cause in look_alikes.filter_map(|id| causes::ALL.iter().find(|c| c.id == *id)) {
            let is_there = nearest.iter().any(|(_, told)| told.id == cause.id);
            if let (false, [seen, ..]) = (is_there, cause.signature) {
                nearest.push((*seen, cause));
            }
        }
    }
    nearest.truncate(SHOWN_NEAREST);
    nearest
}

/// How often each word stands in a text.
#[derive(Default)]
struct Bag {
    counts: BTreeMap<String, u32>,
    length: usize,
}

impl Bag {
    fn new(text: &str) -> Bag {
        let mut bag = Bag::default();
        for token in tokens(text) {
            *bag.counts.entry(token).or_default() += 1;
            bag.length += 1;
        }
        bag
    }
}

struct Entry {
    cause: &'static Cause,
    lines: Vec<(&'static str, Bag)>,
    page: Bag,
}

struct Index {
    causes: Vec<Entry>,
    /// In how many causes a word stands.
    spread: BTreeMap<String, u32>,
    line_length: f64,
    page_length: f64,
}

impl Index {
    fn new() -> Index {
        let causes: Vec<Entry> = causes::ALL.iter().map(entry).collect();
        let mut spread: BTreeMap<String, u32> = BTreeMap::new();
        for entry in &causes {
            let bags = entry.lines.iter().map(|(_, bag)| bag);
            let words = bags.chain([&entry.page]).flat_map(|bag| bag.counts.keys());
            for word in words.collect::<BTreeSet<_>>() {
                *spread.entry(word.clone()).or_default() += 1;
            }
        }
        let lines = || causes.iter().flat_map(|entry| &entry.lines);
        let line_length = mean(lines().map(|(_, bag)| bag.length));
        let page_length = mean(causes.iter().map(|entry| entry.page.length));
        Index {
            causes,
            spread,
            line_length,
            page_length,
        }
    }

    /// The words that stand here, each once; a misspelt one as the one that it is.
    fn known(&self, words: Vec<String>) -> BTreeSet<String> {
        let known = words.into_iter().filter_map(|word| {
            if self.spread.contains_key(&word) {
                return Some(word);
            }
            if word.chars().count() < SHOWN_MISSPELT {
                return None;
            }
            let own = self
                .spread
                .keys()
                .map(|known| (known.as_str(), known.as_str()));
            let theirs = synonyms().map(|(word, means)| (word as &str, means as &str));
            let nearly = own
                .chain(theirs)
                .find(|(known, _)| differs_by_one(&word, known));
            nearly.map(|(_, means)| means.to_string())
        });
        known.collect()
    }

    fn score(&self, asked: &BTreeSet<String>, text: &Bag, mean_length: f64) -> f64 {
        let long = 1.0 - SHOWN_LENGTH + SHOWN_LENGTH * text.length as f64 / mean_length.max(1.0);
        let of_word = |word: &String| {
            let times = f64::from(text.counts.get(word).copied().unwrap_or(0));
            self.rarity(word) * times * (SHOWN_SATURATION + 1.0) / (times + SHOWN_SATURATION * long)
        };
        asked.iter().map(of_word).sum()
    }

    fn rarity(&self, word: &str) -> f64 {
        let all = self.causes.len() as f64;
        let with = f64::from(self.spread.get(word).copied().unwrap_or(0));
        (1.0 + (all - with + 0.5) / (with + 0.5)).ln()
    }
}

fn entry(cause: &'static Cause) -> Entry {
    let lines = cause.signature.iter().map(|seen| (*seen, Bag::new(seen)));
    let paragraphs: Vec<&str> = cause.page.trim().split("\n\n").take(2).collect();
    let about = format!("{} {} {}", cause.id, cause.title, paragraphs.join(" "));
    Entry {
        cause,
        lines: lines.collect(),
        page: Bag::new(&about),
    }
}

fn mean(lengths: impl Iterator<Item = usize>) -> f64 {
    let (sum, count) = lengths.fold((0, 0), |(sum, count), length| (sum + length, count + 1));
    sum as f64 / f64::from(count.max(1))
}

/// Whether one letter too many, too few, another or two exchanged make one word of the other.
fn differs_by_one(one: &str, other: &str) -> bool {
    let one: Vec<char> = one.chars().collect();
    let other: Vec<char> = other.chars().collect();
    let same = |a: &[char], b: &[char]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let begin = same(&one, &other);
    let (one, other) = (&one[begin..], &other[begin..]);
    match (one, other) {
        ([_, rest @ ..], all) | (all, [_, rest @ ..]) if rest == all => true,
        ([_, a @ ..], [_, b @ ..]) if a == b => true,
        ([a, b, rest @ ..], [c, d, end @ ..]) => a == d && b == c && rest == end,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
