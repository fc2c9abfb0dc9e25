//! The book's page of who wins: the order of the steps, and both relations as the causes declare them.

use std::fmt::Write;

use crate::cause::{Cause, ToldWith};
use crate::causes::ALL;
use crate::correlated_counters::Symptom;

const BEGINS: &str = "\
# Which finding is told

Made from the causes' declarations in `crates/explain/src/causes/`; `make docs` writes it.

Trouble shows in more than one place. A stopped process lets its accept queue overflow, leaves requests unread and
answers late, and three causes see that. `tcpwhy explain` reports it once. This is how it decides what is told, and
under what.

## The order

1. Each cause looks at all of its places in the recording. A place where all tests hold is a case, with the time that
   it cost. (`causes/`, `places/`)
2. Cases on most of the paths that share something become one case of what they share. (`told with`, below;
   `shared_paths.rs`)
3. Each look-alike that the cause declares is asked at the same place. It is ruled out by a number, or it costs the
   case its high confidence. (`judge.rs`)
4. Cases of one stop become one. (`told with`; `who_wins.rs`)
5. Each case that another one explains moves under it, as one line of its evidence. (`explains`; `who_wins.rs`)
6. The time that several cases claim for the same end in the same state is divided between them in proportion, so
   that it counts once. (`lost.rs`)
7. What cost enough is a finding, the rest are notes. (`matters.rs`)
8. The same steps judge each stretch of a long recording that stands out. What they find there dates the finding of
   the whole, or is a finding of its own. (`episodes.rs`)
9. Every finding is checked: its rows must exist. (`validate.rs`)
10. What of a service's trouble no finding and no note claims is printed as unexplained. (`unexplained.rs`)

Nothing else leaves a case out, but what the user asked for: a filter narrows what is told, and a few kinds of cases
are told only when asked about. Of one cause at most 100 findings are told, and how many more there were.

## Explains

The cause on the left explains a case of the cause on the right if both are about the same place: the same listener,
process, or ends. It must matter itself, and the other must not have cost more than SEVERAL times as much. A cause
that measured its own cost keeps that; otherwise it takes over what its consequence cost.

";

const CONNECTS: &str = "
A process that waits for others before it answers is late because its own connects fail or are retried. There, a case
about connects explains that of `slow-application`, and its cost includes what the process's clients waited. There
must be at least one such connect for every second late answer. The causes about connects are:
";

/// The page, as Markdown.
pub fn page() -> String {
    let limit = crate::limits::SEVERAL_TIMES.told();
    let mut page = BEGINS.replace("SEVERAL times", &format!("{limit} (`SEVERAL_TIMES`)"));
    page.push_str("```mermaid\ngraph LR\n");
    for cause in ALL {
        for id in cause.explains {
            let _ = writeln!(page, "    {} --> {id}", cause.id);
        }
    }
    page.push_str("```\n\n| cause | explains |\n|---|---|\n");
    for cause in ALL.iter().filter(|c| !c.explains.is_empty()) {
        let ids = cause.explains.iter().map(|id| format!("`{id}`"));
        let ids: Vec<String> = ids.collect();
        let _ = writeln!(page, "| `{}` | {} |", cause.id, ids.join(", "));
    }
    page.push_str(CONNECTS);
    let of_connects = |c: &&Cause| c.symptom == Some(Symptom::Connects);
    let _ = writeln!(page, "{}.", names(of_connects));
    let with = |with: fn(ToldWith) -> bool| names(move |c: &&Cause| c.told_with.is_some_and(with));
    let _ = write!(
        page,
        "\n## Told with\n\n\
         | one event | the causes that see it | told as |\n|---|---|---|\n\
         | a process is stopped | {} | the case that cost most; the others are lines of its evidence |\n\
         | more than half of a host's paths, or of those to a /24 or /64, are in trouble | {}, each by itself | one \
         case of what they share |\n\
         | a reader at the far end is slow | {}, each by itself | a case for each reader |\n\n\
         A server that has clients at many addresses of the internet, most of them without trouble, tells that of a \
         single one as a note: it is this one's own line.\n",
        with(|with| with == ToldWith::Stop),
        with(|with| matches!(with, ToldWith::Paths(_))),
        with(|with| with == ToldWith::Readers),
    );
    page
}

/// The ids of some causes, as a list.
fn names(which: impl Fn(&&Cause) -> bool) -> String {
    let ids = ALL.iter().filter(which).map(|c| format!("`{}`", c.id));
    ids.collect::<Vec<_>>().join(", ")
}
