//! A line of the USE checklist, of `stat use`.

use analysis::resources;
use recording::Table as _;
use recording::tables::Resource;

use crate::columns::{Unit, Value, columns, heads, json, left, right, row};

/// A line of the checklist.
pub(crate) struct Checked {
    pub(crate) row: Resource,
    /// How fast it rose, if it counts up.
    pub(crate) per_s: Option<f64>,
}

columns! {
    Checked = "resource" {
        text TIME RESOURCE INSTANCE ASPECT METRIC VALUE UNIT LIMIT USED_SHARE;
        json TIME ROW PER_S USED_SHARE;
    }
    TIME: heads::TIME => |l, _| Value::Time(l.row.time_ns);
    ROW: row(Resource::INFO) => |l, _| Value::Row(l.row.cells());
    /// Kind of resource.
    RESOURCE: left("RESOURCE", 13, &["resource"], Unit::Name) => |l, _| (&l.row.resource).into();
    /// Which one of its kind; `@` and its namespace, where it belongs to one.
    INSTANCE: left("INSTANCE", 24, &["instance"], Unit::Words) => |l, how| match l.row.netns {
        0 => (&l.row.instance).into(),
        netns => format!("{}@{}", l.row.instance, how.netns(netns)).into(),
    };
    /// Utilisation, saturation or errors.
    ASPECT: left("ASPECT", 11, &["aspect"], Unit::Name) => |l, _| (&l.row.aspect).into();
    /// What is measured.
    METRIC: left("METRIC", 26, &["metric"], Unit::Name) => |l, _| (&l.row.metric).into();
    /// The value; of what counts up, per second since the report before.
    VALUE: right("VALUE", 14, &["value"], Unit::Measure) => |l, _| l.value().into();
    /// Unit of the value.
    UNIT: left("UNIT", 7, &["unit"], Unit::Name) => |l, _| if l.row.cumulative { format!("{}/s", l.row.unit).into() } else { (&l.row.unit).into() };
    /// What the value cannot exceed.
    LIMIT: right("LIMIT", 14, &["limit"], Unit::Measure) => |l, _| l.limit().into();
    /// Value ÷ limit.
    USED_SHARE: right("USED%", 6, &["limit_percent"], Unit::Percent) => |l, _| l.used_percent().into();
    /// Of what counts up, how fast it rose since the report before.
    PER_S: json(&["per_s"], Unit::PerSecond) => |l, _| l.per_s.into();
}

impl Checked {
    pub(super) fn value(&self) -> Option<f64> {
        if self.row.cumulative {
            self.per_s
        } else {
            Some(self.row.value)
        }
    }

    fn limit(&self) -> Option<f64> {
        self.row.limit.filter(|limit| *limit > 0.0)
    }

    pub(super) fn used_percent(&self) -> Option<f64> {
        Some(resources::share(self.value()?, self.row.limit)? * 100.0)
    }
}
