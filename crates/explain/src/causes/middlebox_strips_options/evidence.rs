//! The chain of stripped options: who lacks them, what it costs, both ends' settings, no cookie.

use analysis::words::{count, list};

use super::Case;

impl Case<'_> {
    pub(super) fn evidence(&self, missing: &str) -> Vec<Step> {
        let kept = self.kept.len() as u64;
        let mut steps = vec![
            Step::new(format!(
                "{} without {missing}; {} with.",
                match self.affected() {
                    1 => "1 connection runs".into(),
                    n => format!("{} connections run", count(n)),
                },
                count(kept)
            ))
            .number("without", self.affected())
            .number("with", kept)
            .rows(self.rows(&self.lacking)),
        ];
        if self.scaling_lost() {
            steps.extend(self.pace.rate_step(self.story, self.netns));
            steps.extend(self.pace.window_step());
        }
        steps.push(self.settings_step());
        steps.push(self.cookies_step());
        steps
    }

    fn rows(&self, ids: &[ConnId]) -> Vec<RowRef> {
        let row = |c: &Conn| c.row().or(self.story.samples(c).map(|s| s.last.row));
        let rows = self.story.all(ids).filter_map(|(_, c)| row(c));
        rows.take(SHOWN_ROWS).collect()
    }

    fn settings_step(&self) -> Step {
        let mut namespaces = vec![self.netns];
        let peers = self
            .story
            .all(&self.lacking)
            .filter_map(|(_, c)| self.story.conn(c.peer?));
        for peer in peers {
            if !namespaces.contains(&peer.netns) && namespaces.len() < SHOWN_ROWS {
                namespaces.push(peer.netns);
            }
        }
        let named = namespaces.iter().map(|n| match self.story.netns(*n).name {
            Some(name) => name,
            None => n.to_string(),
        });
        let named = list(&named.collect::<Vec<_>>());
        let rows = namespaces.iter().flat_map(|n| {
            let row = |name| self.story.settings.get(*n, name).map(|v| v.row);
            [row(sysctl::TCP_SACK), row(sysctl::TCP_WINDOW_SCALING)]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
        });
        Step::new(format!(
            "net.ipv4.tcp_sack and net.ipv4.tcp_window_scaling are on in {named}, so {} offered \
             them.",
            match self.proven {
                0 => "this end",
                _ => "both ends",
            }
        ))
        .number("namespaces", namespaces.len())
        .rows(rows.collect::<Vec<_>>())
    }

    fn cookies_step(&self) -> Step {
        let made = self.affected() - self.unseen();
        let received = self.cookies();
        let counted = match received.value {
            0 => "the namespace never accepted a cookie".into(),
            _ => format!("SyncookiesRecv rose by {}", count(received.by)),
        };
        let says = match (self.scene, made) {
            (None, _) => "Whether the server sent cookies cannot be seen from this side.".into(),
            (Some(_), 0) => format!("Their making was not seen; {counted}."),
            (Some(_), n) => format!(
                "No cookie was involved: the kernel's stack shows {} made the ordinary way, and \
                 {counted}.",
                count(n)
            ),
        };
        Step::new(says)
            .number("made_without_cookie", self.scene.map_or(0, |_| made))
            .number(counter::short(counter::SYNCOOKIES_RECV), received.by)
            .number("SyncookiesRecv_total", received.value)
            .rows(self.rows(&self.lacking).into_iter().take(1))
            .rows(received.rows().take(1))
    }
}
use crate::vocabulary::*;
