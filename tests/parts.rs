//! The parts of a recording: who names those that `explain` records names all of them.

use observe::Part;

#[test]
fn the_lab_records_what_explain_does() {
    let default: Vec<Part> = Part::by_default().collect();
    let more: Vec<Part> = Part::to_explain()
        .filter(|p| !default.contains(p))
        .collect();
    let named = Part::ALL.iter().filter(|(part, ..)| more.contains(part));
    let names: Vec<&str> = named.map(|(_, name, ..)| *name).collect();
    assert_eq!(lab::EXPLAINED, names.join(","));
}
