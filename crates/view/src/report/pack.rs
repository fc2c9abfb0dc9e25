//! Numbers packed for the page: integers, each as the difference to the one before.

use super::page::Packed;

/// Above this, a number of JavaScript is not exact.
const LARGEST: f64 = 9_007_199_254_740_992.0;

/// Values in units of `scale`; what is not a number is packed as null.
pub(super) fn pack(values: impl IntoIterator<Item = Option<f64>>, scale: f64) -> Packed {
    let mut last = 0;
    let deltas = values.into_iter().map(|value| {
        let value = value.filter(|v| v.is_finite())?;
        let now = (value / scale).round().clamp(-LARGEST, LARGEST) as i64;
        let delta = now - last;
        last = now;
        Some(delta)
    });
    Packed {
        scale,
        deltas: deltas.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As the page does it.
    fn unpack(packed: &Packed) -> Vec<Option<f64>> {
        let mut sum = 0;
        let values = packed.deltas.iter().map(|delta| {
            sum += (*delta)?;
            Some(sum as f64 * packed.scale)
        });
        values.collect()
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back(
            values in prop::collection::vec(prop::option::of(-1e9..1e9_f64), 0..50),
            scale in prop::sample::select(vec![1.0, 0.001, 0.5, 1_000.0]),
        ) {
            let back = unpack(&pack(values.iter().copied(), scale));
            prop_assert_eq!(back.len(), values.len());
            for (back, value) in back.into_iter().zip(values) {
                prop_assert_eq!(back.is_some(), value.is_some());
                let off = back.unwrap_or(0.0) - value.unwrap_or(0.0);
                prop_assert!(off.abs() <= scale * 0.501, "{off} at {scale}");
            }
        }

        #[test]
        fn extremes_and_no_numbers_do_no_harm(values in prop::collection::vec(any::<f64>(), 0..20)) {
            let packed = pack(values.iter().copied().map(Some), 1e-3);
            let finite = values.iter().filter(|v| v.is_finite()).count();
            prop_assert_eq!(packed.deltas.iter().flatten().count(), finite);
        }
    }
}
