//! look
use explain::fixture;
#[test]
fn look() {
    for f in [
        fixture::syn_queue(),
        fixture::stripped(),
        fixture::refused(),
        fixture::stopped_worker(),
    ] {
        let e = f.explain().expect("reads");
        println!(
            "{}\n==========",
            view::text::explanation(&e, &view::Style::default())
        );
    }
}
