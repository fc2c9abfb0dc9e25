//! Charts are whole XML whatever they are made of, and nothing in a name becomes a part of it.

use proptest::prelude::*;
use quick_xml::Reader;
use quick_xml::events::Event;

use super::{Chart, Panel, Point, bars, svg};

/// The texts of a drawing, and its elements' names.
fn read(drawing: &str) -> (Vec<String>, Vec<String>) {
    let (mut texts, mut names) = (Vec::new(), Vec::new());
    let mut depth = 0;
    let mut reader = Reader::from_str(drawing);
    loop {
        match reader.read_event().expect("well-formed") {
            Event::Start(e) => {
                depth += 1;
                names.push(String::from_utf8_lossy(e.name().as_ref()).into_owned());
                assert!(e.attributes().all(|a| a.is_ok()));
            }
            Event::Empty(e) => {
                names.push(String::from_utf8_lossy(e.name().as_ref()).into_owned());
                assert!(e.attributes().all(|a| a.is_ok()));
            }
            Event::End(_) => depth -= 1,
            Event::Text(t) => texts.push(t.decode().expect("UTF-8").trim().to_string()),
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0);
    texts.retain(|t| !t.is_empty());
    (texts, names)
}

fn drawn(chart: &Chart) -> String {
    let mut out = Vec::new();
    svg(chart, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn chart(name: &str, values: &[(f64, f64)]) -> Chart {
    let point = |(x, v): &(f64, f64)| Point {
        x: *x,
        median: *v,
        least: v - 1.0,
        most: v + 1.0,
    };
    Chart {
        by_factors: false,
        title: name.into(),
        along: name.into(),
        panels: vec![
            Panel {
                title: name.into(),
                points: values.iter().map(point).collect(),
            };
            3
        ],
    }
}

#[test]
fn a_panel_has_its_title_axes_line_and_band() {
    let drawing = drawn(&chart("load", &[(0.0, 1.0), (1.0, 4.0), (2.0, 9.0)]));
    let (texts, names) = read(&drawing);
    assert_eq!(
        texts.iter().filter(|t| *t == "load").count(),
        7,
        "{texts:?}"
    );
    let count = |name| names.iter().filter(|n| *n == name).count();
    assert_eq!((count("polygon"), count("circle")), (3, 9));
    assert!(texts.iter().any(|t| t == "10") && texts.iter().any(|t| t == "0.5"));
    assert!(drawing.len() < 30_000, "{}", drawing.len());
}

#[test]
fn what_would_be_a_script_is_text() {
    let evil = "</text><script>alert('1')</script>\x1b[2J\u{202e}&\"";
    let drawing = drawn(&chart(evil, &[(0.0, 1.0), (1.0, 2.0)]));
    let (_, names) = read(&drawing);
    assert!(!names.iter().any(|n| n == "script"), "{names:?}");
    assert!(!drawing.contains('\x1b') && !drawing.contains('\u{202e}'));
}

#[test]
fn nothing_to_draw_is_an_error() {
    for values in [&[][..], &[(f64::NAN, 1.0)], &[(1.0, f64::INFINITY)]] {
        assert!(svg(&chart("x", values), Vec::new()).is_err(), "{values:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_names_and_numbers_give_whole_xml(
        name in any::<String>(),
        values in prop::collection::vec((any::<f64>(), any::<f64>()), 0..20),
    ) {
        let mut out = Vec::new();
        if svg(&chart(&name, &values), &mut out).is_ok() {
            read(&String::from_utf8(out).unwrap());
        }
        prop_assert_eq!(bars(values.iter().map(|v| v.1)).chars().count(), values.len());
    }
}
