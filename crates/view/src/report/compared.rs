//! What differs between the recordings of a report.

use analysis::words;
use explain::compare::{By, Comparison};

use super::page::{Compared, Flame, Limits};
use super::verdict::marked;
use crate::compare::{
    attribute_sentence, called, felt_lines, figure, headline, loss_sentence, lost_share, names,
    percent, slow_sentence, unit_name,
};

/// The comparison in the page's form.
pub(super) fn compared(comparison: &Comparison, flames: Vec<Flame>) -> Compared {
    let mut says = Vec::new();
    if let (By::Order, [first, second]) = (comparison.by, &comparison.runs[..]) {
        says.extend(felt_lines(first, second).into_iter().map(|(_, says)| says));
    }
    says.extend(comparison.sockets.iter().map(slow_sentence));
    says.extend(comparison.loss_over_load.iter().map(loss_sentence));
    let tables = [
        runs(comparison),
        attributes(comparison),
        trends(comparison),
        losses(comparison),
        costs(comparison),
        functions(comparison),
        counters(comparison),
        settings(comparison),
    ];
    let headline = headline(comparison);
    let of: Vec<_> = comparison.runs.iter().map(called).collect();
    Compared {
        ticket: ticket(&headline, &says, &of),
        headline,
        says,
        tables: tables.into_iter().filter(|t| !t.rows.is_empty()).collect(),
        flames,
    }
}

/// The answer as Markdown.
fn ticket(headline: &str, says: &[String], of: &[String]) -> String {
    let of = marked(&of.join(", "));
    let says = says.iter().map(|says| format!("- {}\n", marked(says)));
    let says: String = says.collect();
    format!("**{}**\n\n{says}\nCompared: {of}\n", marked(headline))
}

/// A table without limits.
fn table(id: &str, title: &str, columns: &[&str], rows: Vec<Vec<String>>) -> Limits {
    Limits {
        id: id.into(),
        title: title.into(),
        columns: columns.iter().map(|c| (*c).into()).collect(),
        telling: rows.len() as u32,
        rows: rows.into_iter().map(|cells| (cells, None)).collect(),
        left_out: 0.0,
    }
}

fn trends(comparison: &Comparison) -> Limits {
    let rows = comparison.trends.iter().map(|t| {
        vec![
            t.what.clone(),
            words::figure(t.first),
            words::figure(t.last),
            t.unit.clone(),
            words::figure(t.per_day),
            t.limit.map(words::figure).unwrap_or_default(),
            t.limit_in_days.map(words::figure).unwrap_or_default(),
        ]
    });
    let columns = [
        "what",
        "earliest",
        "latest",
        "unit",
        "a day",
        "limit",
        "days until then",
    ];
    table(
        "trends",
        "What grows from recording to recording",
        &columns,
        rows.collect(),
    )
}

fn losses(comparison: &Comparison) -> Limits {
    let of_loss = comparison.loss_over_load.iter().flat_map(|loss| {
        loss.points.iter().map(|point| {
            vec![
                loss.what.into(),
                words::figure(point.load),
                unit_name(loss.unit).into(),
                lost_share(point),
                words::count(point.lost),
                words::count(point.sent),
                comparison.runs.get(point.run).map_or(String::new(), called),
            ]
        })
    });
    table(
        "loss-over-load",
        "Loss over load",
        &["lost", "load", "unit", "share", "count", "of", "recording"],
        of_loss.collect(),
    )
}

fn runs(comparison: &Comparison) -> Limits {
    let rows = comparison.runs.iter().map(|run| {
        vec![
            called(run),
            figure(run.mbit_per_s),
            if run.slow { "slow" } else { "" }.into(),
            run.sockets.to_string(),
            run.slow_sockets.to_string(),
        ]
    });
    table(
        "runs",
        "Recordings",
        &[
            "recording",
            "Mbit/s",
            "",
            "sockets that sent a lot",
            "slow of these",
        ],
        rows.collect(),
    )
}

fn attributes(comparison: &Comparison) -> Limits {
    let attributes = comparison.sockets.iter().flat_map(|s| &s.attributes);
    let rows = attributes.map(|a| vec![attribute_sentence(a)]);
    table(
        "attributes",
        "What sets the slow sockets apart",
        &["attribute"],
        rows.collect(),
    )
}

fn costs(comparison: &Comparison) -> Limits {
    let us = |value: Option<f64>| value.map_or("-".into(), figure);
    let rows = comparison.cpus.iter().map(|c| {
        vec![
            c.cpu.to_string(),
            us(c.fast_us_per_packet),
            us(c.slow_us_per_packet),
            us(c.fast_us_per_interrupt),
            us(c.slow_us_per_interrupt),
            format!("{}×", figure(c.ratio)),
        ]
    });
    let [fast, slow] = names(comparison);
    let heads = [
        "CPU".to_string(),
        format!("µs per packet, {fast}"),
        slow.clone(),
        format!("µs per interrupt, {fast}"),
        slow,
        "ratio, the greater".into(),
    ];
    let heads: Vec<&str> = heads.iter().map(|h| &**h).collect();
    table(
        "cpus",
        "Kernel time by CPU, per packet and per interrupt",
        &heads,
        rows.collect(),
    )
}

fn functions(comparison: &Comparison) -> Limits {
    let [fast, slow] = names(comparison);
    let rows = comparison.functions.iter().map(|f| {
        vec![
            f.function.clone(),
            percent(f.fast_share),
            percent(f.slow_share),
        ]
    });
    table(
        "functions",
        "Functions that grew",
        &["function", &format!("of all samples, {fast}"), &slow],
        rows.collect(),
    )
}

fn counters(comparison: &Comparison) -> Limits {
    let [fast, slow] = names(comparison);
    let rows = comparison.counters.iter().map(|c| {
        vec![
            c.counter.replace('.', ""),
            figure(c.fast_per_s),
            figure(c.slow_per_s),
            if c.separates { "yes" } else { "no" }.into(),
        ]
    });
    table(
        "counters",
        "Counters that rise at another pace",
        &[
            "counter",
            &format!("per s, {fast}"),
            &slow,
            "in every recording",
        ],
        rows.collect(),
    )
}

fn settings(comparison: &Comparison) -> Limits {
    let [fast, slow] = names(comparison);
    let values = |values: &[String]| {
        if values.is_empty() {
            "not set".into()
        } else {
            values.join(" or ")
        }
    };
    let rows = comparison.settings.iter();
    let rows = rows.map(|s| vec![s.setting.clone(), values(&s.fast), values(&s.slow)]);
    table(
        "settings",
        "Settings that differ",
        &["setting", &fast, &slow],
        rows.collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_host_make_no_markup_in_a_ticket() {
        let says = ["[click](http://x) sent\n# more".to_string()];
        let ticket = ticket("<b> is slower", &says, &["a*".into()]);
        assert_eq!(
            ticket,
            "**\\<b\\> is slower**\n\n- \\[click\\](http://x) sent \\# more\n\nCompared: a\\*\n"
        );
    }
}
