//! An exam in words: a line per sitting, the scores on a terminal, and the page of the book.

use std::fmt::{self, Write};

use super::grade::{Grade, Score, bars, wrongs};
use super::{Fault, Found, GRADING, Part, Side, Sitting, noticed};

/// One sitting in a line: what was planted, what was said, whether that was right.
pub fn render_sitting(sitting: &Sitting) -> String {
    let mark = match (&sitting.failed, wrongs(sitting).is_empty()) {
        (Some(_), _) => "FAILED",
        (None, true) => "right ",
        (None, false) => "WRONG ",
    };
    let situation = &sitting.situation;
    let fault = |part: &Part| {
        let at = situation.parts.iter().position(|p| p == part);
        let fault = sitting.faults.iter().find(|f| Some(f.part) == at);
        format!(
            "{}{}",
            part.scenario,
            fault.map(severity).unwrap_or_default()
        )
    };
    let faults: Vec<String> = situation
        .parts
        .iter()
        .filter(|p| p.is_fault())
        .map(fault)
        .collect();
    let planted = if faults.is_empty() {
        "healthy".to_string()
    } else {
        faults.join(" + ")
    };
    let said: Vec<String> = sitting.findings.iter().map(named).collect();
    let said = match (&sitting.failed, said.is_empty()) {
        (Some(why), _) => why.clone(),
        (None, true) => "nothing".into(),
        (None, false) => said.join(", "),
    };
    format!("{mark} {:<8} {planted} -> {said}", situation.seed)
}

fn severity(fault: &Fault) -> String {
    format!(" ×{:.1}", fault.significance())
}

fn named(found: &Found) -> String {
    format!("{} ({})", found.cause, found.confidence)
}

/// The scores, and what was wrong.
pub fn render_grade(grade: &Grade) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = write_grade(&mut text, grade);
    text
}

fn write_grade(text: &mut String, grade: &Grade) -> fmt::Result {
    for score in &grade.scores {
        let mark = if score.met { "met   " } else { "MISSED" };
        let Score {
            what,
            right,
            of,
            bar,
            ..
        } = score;
        let share = percent(*right, *of);
        writeln!(
            text,
            "{mark} {share:>7} (bar {:.0} %)  {right} of {of}  {what}",
            100.0 * bar
        )?;
    }
    writeln!(text)?;
    for bin in &grade.curve {
        let range = range(bin.from, bin.to);
        let share = percent(bin.found, bin.of);
        writeln!(
            text,
            "found  {share:>7}  {} of {}  at {range}",
            bin.found, bin.of
        )?;
    }
    if let Some([least, half, most]) = grade.claimed {
        writeln!(
            text,
            "seconds claimed ÷ seconds lost: {half:.2} (p50), {least:.2} (p10), {most:.2} (p90)"
        )?;
    }
    writeln!(text)?;
    for (seed, wrongs) in &grade.wrong {
        for wrong in wrongs {
            writeln!(text, "wrong  {seed:<8} {wrong}")?;
        }
    }
    writeln!(text, "{} situations", grade.situations)?;
    writeln!(text, "{}", if grade.passed() { "passed" } else { "FAILED" })
}

fn percent(part: u64, of: u64) -> String {
    match of {
        0 => "-".into(),
        _ => format!("{:.1} %", 100.0 * part as f64 / of as f64),
    }
}

fn range(from: f64, to: f64) -> String {
    match (from > 0.0, to.is_finite()) {
        (false, _) => format!("less than ×{to}"),
        (true, true) => format!("×{from} to ×{to}"),
        (true, false) => format!("×{from} and more"),
    }
}

/// The page of the book; `again` is what a later build answers where one was wrong, `about` what nothing in the sittings
/// says of them, `curve` the picture of the detection curve, as the page finds it.
pub fn exam_markdown(
    sittings: &[Sitting],
    grade: &Grade,
    again: &[Sitting],
    about: &str,
    curve: Option<&str>,
) -> String {
    let mut page = String::new();
    let written = write_page(&mut page, sittings, grade, about, curve);
    let _ = written.and_then(|()| write_wrong(&mut page, grade, again));
    page
}

fn write_page(
    page: &mut String,
    sittings: &[Sitting],
    grade: &Grade,
    about: &str,
    curve: Option<&str>,
) -> fmt::Result {
    write_head(page, sittings, grade)?;
    if !about.trim().is_empty() {
        writeln!(page, "{}\n", about.trim())?;
    }
    writeln!(page, "## Against what is asked\n")?;
    writeln!(
        page,
        "| | right | of | share | bar | |\n|---|---|---|---|---|---|"
    )?;
    for Score {
        what,
        right,
        of,
        bar,
        met,
    } in &grade.scores
    {
        let (share, mark) = (percent(*right, *of), if *met { "met" } else { "missed" });
        let bar = 100.0 * bar;
        writeln!(
            page,
            "| {what} | {right} | {of} | {share} | {bar:.0} % | {mark} |"
        )?;
    }
    writeln!(
        page,
        "\n## From which severity on a fault is found\n\n\
         ×1 is where a user begins to notice, by the clients' own log: at least {:.0} waits, {:.1} % of all, of more \
         than twice the usual length, which take {:.0} % of all time waited; or one stall of {:.0} s; or {:.0} \
         failures, {:.0} % of all attempts, over {:.0} s, or as few as waits may be if as much time passes without \
         a success; or transfers that lose {:.0} % of their time. Usual is what the same client met in the same \
         situation without its faults.\n",
        noticed::SLOW,
        100.0 * noticed::SLOW_SHARE,
        100.0 * noticed::SLOW_TIME,
        noticed::STALL_S,
        noticed::FAILED,
        100.0 * noticed::FAILED_SHARE,
        noticed::FAILING_S,
        100.0 * noticed::STREAM_SHARE,
    )?;
    if let Some(curve) = curve {
        writeln!(
            page,
            "![The share of faults that is found, by severity]({curve})\n"
        )?;
    }
    writeln!(page, "| severity | found | of | share |\n|---|---|---|---|")?;
    for bin in &grade.curve {
        let (range, share) = (range(bin.from, bin.to), percent(bin.found, bin.of));
        writeln!(page, "| {range} | {} | {} | {share} |", bin.found, bin.of)?;
    }
    if let Some([least, half, most]) = grade.claimed {
        writeln!(
            page,
            "\nSeconds that findings claim ÷ seconds that clients lost: {half:.2} in the median, {least:.2} at \
             the tenth percentile, {most:.2} at the ninetieth."
        )?;
    }
    writeln!(
        page,
        "\n## How sure, and how often right\n\n| confidence | right | of | share |\n|---|---|---|---|"
    )?;
    for level in ["high", "medium", "low"] {
        let (right, of) = grade.calibration.get(level).copied().unwrap_or_default();
        writeln!(
            page,
            "| {level} | {right} | {of} | {} |",
            percent(right, of)
        )?;
    }
    write_groups(page, grade)?;
    write_confusion(page, grade)
}

fn write_head(page: &mut String, sittings: &[Sitting], grade: &Grade) -> fmt::Result {
    let parts = || sittings.iter().flat_map(|s| &s.situation.parts);
    let faults = || parts().filter(|p| p.is_fault());
    let count = |of: fn(&Part) -> bool| parts().filter(|p| of(p)).count();
    let healthy = sittings.iter().filter(|s| s.situation.is_healthy()).count();
    let side = |side| faults().filter(|p| p.side == side).count();
    let several = sittings.iter().filter(|s| s.faults.len() > 1).count();
    let older = sittings
        .iter()
        .filter(|s| s.situation.older_ms > 0.0)
        .count();
    let seeds = sittings.iter().map(|s| s.situation.seed);
    let (first, last) = (seeds.clone().min().unwrap_or(0), seeds.max().unwrap_or(0));
    let (whose, which) = if grade.grading {
        ("grading seeds", String::new())
    } else {
        (
            "building seeds, not those that grade",
            format!(" --building={first}"),
        )
    };
    writeln!(
        page,
        "# The exam\n\n\
         {} situations drawn at random, seeds {first} to {last} ({whose}), {healthy} of them healthy: none to three \
         scenarios of [the lab](lab.md) with a fault each, in their own nodes, and healthy ones beside them. \
         Each is planted, recorded and explained twice: with its faults, and again without them. The cost of a \
         fault is the difference between the two in its clients' own logs.\n",
        sittings.len(),
    )?;
    writeln!(
        page,
        "Also drawn at random: how severe each fault is, on a ladder from 0.3 to 30; which side of it is recorded (both {}, \
         clients' {}, servers' {}); several faults at once ({several} situations); IPv6 ({} parts); a node that \
         translates addresses ({}); faults older than the recording ({older} situations), its length, sysctls \
         that should change nothing.\n",
        side(Side::Both),
        side(Side::Client),
        side(Side::Server),
        count(|p| p.ipv6),
        count(|p| p.nat),
    )?;
    writeln!(
        page,
        "Made by\n\n    sudo tcpwhy lab exam DIR{which} --seeds {}\n    tcpwhy lab exam DIR --grade --page \
         docs/exam.md\n\n\
         The grading seeds begin at {GRADING} and are fixed: a situation is never redrawn because of its \
         result. Development uses other seeds (`--building`).\n",
        last + 1 - first,
    )
}

fn write_groups(page: &mut String, grade: &Grade) -> fmt::Result {
    writeln!(
        page,
        "\n## Causes that are taken for each other\n\n\
         The exam asks for {} faults of each group; of those that cost {} times what a user notices, {:.0} % must \
         be found.\n\n\
         | group | faults | of ×{} and more | found | share | mistaken for another of the group |\n\
         |---|---|---|---|---|---|",
        bars::OF_GROUP,
        bars::CLEAR,
        100.0 * bars::RECALL,
        bars::CLEAR,
    )?;
    for group in &grade.groups {
        let causes: Vec<String> = group.causes.iter().map(|c| format!("`{c}`")).collect();
        writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} |",
            causes.join(", "),
            group.faults,
            group.clear,
            group.found,
            percent(group.found, group.clear),
            group.mistaken,
        )?;
    }
    Ok(())
}

fn write_confusion(page: &mut String, grade: &Grade) -> fmt::Result {
    writeln!(
        page,
        "\n## What was said where a user notices\n\n\
         | planted | faults | not visible from the recorded side | of the others named | nothing said | \
         something else said |\n|---|---|---|---|---|---|"
    )?;
    for (cause, row) in &grade.confusion {
        let others: Vec<String> = row
            .others
            .iter()
            .map(|(o, n)| format!("`{o}` {n}"))
            .collect();
        writeln!(
            page,
            "| `{cause}` | {} | {} | {} | {} | {} |",
            row.planted,
            row.untold,
            row.named,
            row.silent,
            others.join(", ")
        )?;
    }
    Ok(())
}

fn write_wrong(page: &mut String, grade: &Grade, again: &[Sitting]) -> fmt::Result {
    if grade.wrong.is_empty() {
        return Ok(());
    }
    writeln!(
        page,
        "\n## What was wrong\n\nTo run one again: `sudo tcpwhy lab exam DIR --only SEED --keep`."
    )?;
    let again = |seed: u64| again.iter().find(|s| s.situation.seed == seed);
    let seen: Vec<&Sitting> = grade
        .wrong
        .iter()
        .filter_map(|(seed, _)| again(*seed))
        .collect();
    if !seen.is_empty() {
        let right = seen.iter().filter(|s| wrongs(s).is_empty()).count();
        writeln!(
            page,
            "A later build ran {} of {} again (`--again`), and is right in {right} of them; this does not count \
             above.",
            seen.len(),
            grade.wrong.len(),
        )?;
    }
    writeln!(page)?;
    for (seed, wrong) in &grade.wrong {
        for wrong in wrong {
            writeln!(page, "- {seed}: {wrong}")?;
        }
        match again(*seed).map(wrongs).as_deref() {
            None => {}
            Some([]) => writeln!(page, "  - seen again: right")?,
            Some(still) if still == wrong => writeln!(page, "  - seen again: the same")?,
            Some(still) => writeln!(page, "  - seen again: {}", still.join("; "))?,
        }
    }
    Ok(())
}
