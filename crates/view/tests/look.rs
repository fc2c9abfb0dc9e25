//! look
use explain::fixture;
#[test]
fn look() {
    for f in [fixture::syn_cookies(), fixture::accept_queue(), fixture::churn(), fixture::bulk()] {
        let e = f.explain().expect("reads");
        println!("{}\n==========", view::text::explanation(&e, &view::Style::default()));
    }
}
