//! What the seed decides in a scenario: every `{ between = [LOW, HIGH] }` becomes a number.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use toml::{Table, Value};

/// Replaces every range in `table` by a number drawn from it, both ends included.
///
/// Each range has a generator of its own, seeded by its place in the file too: a range that is
/// added later does not change what the others draw.
pub(super) fn draw(table: &mut Table, seed: u64) -> Result<(), String> {
    for (key, value) in table.iter_mut() {
        visit(value, seed, key)?;
    }
    Ok(())
}

fn visit(value: &mut Value, seed: u64, place: &str) -> Result<(), String> {
    match value {
        Value::Table(table) => {
            if let Some(range) = table.get("between").filter(|_| table.len() == 1) {
                // A link has a `between` too, beside other keys or with names in it.
                if let Some(drawn) = number(range, seed, place)? {
                    *value = drawn;
                }
                return Ok(());
            }
            for (key, value) in table.iter_mut() {
                visit(value, seed, &format!("{place}.{key}"))?;
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter_mut().enumerate() {
                visit(item, seed, &format!("{place}.{i}"))?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// A number from a range of two integers or two floats; `None` when it is no such range.
fn number(range: &Value, seed: u64, place: &str) -> Result<Option<Value>, String> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ fnv(place));
    let empty = || format!("{place}: the range is empty");
    match range.as_array().map(Vec::as_slice) {
        Some([Value::Integer(low), Value::Integer(high)]) if low <= high => {
            Ok(Some(Value::Integer(rng.random_range(*low..=*high))))
        }
        Some([Value::Float(low), Value::Float(high)]) if low <= high => {
            Ok(Some(Value::Float(rng.random_range(*low..=*high))))
        }
        Some([Value::Integer(_), Value::Integer(_)] | [Value::Float(_), Value::Float(_)]) => {
            Err(empty())
        }
        _ => Ok(None),
    }
}

/// FNV-1a: a hash that is the same in every build.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str, seed: u64) -> Result<Table, String> {
        let mut table = text.parse().unwrap();
        draw(&mut table, seed).map(|()| table)
    }

    #[test]
    fn ranges_become_numbers_that_repeat_with_the_seed() {
        let text = "[a]\nn = { between = [60, 100] }\nf = { between = [0.5, 1.5] }\nk = 3";
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let table = drawn(text, seed).unwrap();
            assert_eq!(drawn(text, seed).unwrap(), table);
            let n = table["a"]["n"].as_integer().unwrap();
            assert!((60..=100).contains(&n));
            assert!((0.5..=1.5).contains(&table["a"]["f"].as_float().unwrap()));
            assert_eq!(table["a"]["k"].as_integer(), Some(3));
            seen.insert(n);
        }
        assert!(seen.len() > 10);
    }

    #[test]
    fn the_nodes_of_a_link_are_no_range() {
        let text = "[[links]]\nbetween = [\"a\", \"b\"]";
        assert_eq!(drawn(text, 1).unwrap(), text.parse().unwrap());
    }

    #[test]
    fn an_empty_range_is_an_error() {
        assert!(
            drawn("n = { between = [2, 1] }", 1)
                .unwrap_err()
                .contains("n:")
        );
    }
}
