//! A recording with rows in every table, made up from the declarations: what mutants are made of.

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Result;
use arrow_array::RecordBatch;
use recording::tables as t;
use recording::{FORMAT, Host, Manifest, Namespace, Source, SourceName, Table, Verdict, Writer};

use crate::column::{Value, column};

/// Rows of each table, in each of its segments.
const ROWS: u64 = 400;
const SEGMENTS: u64 = 2;
/// Ns between rows.
const STEP_NS: u64 = 10_000_000;

/// Makes it in `dir`, which must not exist.
pub fn base(dir: &Path) -> Result<()> {
    let writer = Writer::create(dir, &manifest())?;
    macro_rules! tables {
        ($($table:ident),+) => {
            $( table::<t::$table>(&writer, dir)?; )+
        };
    }
    tables!(
        Event,
        Packet,
        Call,
        Socket,
        Listener,
        Holder,
        PortUse,
        Process,
        Thread,
        ThreadSleep,
        Epoll,
        Wait,
        Signal,
        Sample,
        Stack,
        Frame,
        Cpu,
        Interrupt,
        Resource,
        TableSize,
        Counter,
        Setting,
        Health
    );
    Ok(())
}

fn manifest() -> Manifest {
    Manifest {
        format: FORMAT,
        tcpwhy: "0.0.0".into(),
        producer: "live".into(),
        complete: true,
        host: Host {
            name: "hostile".into(),
            kernel: "6.18.0".into(),
            machine: "x86_64".into(),
            boot_id: "f00d".into(),
            hz: Some(1000),
            cpus: 4,
        },
        start_ns: 0,
        end_ns: ROWS * SEGMENTS * STEP_NS,
        clock_offset_ns: 1_700_000_000_000_000_000,
        command_line: vec!["tcpwhy".into(), "record".into()],
        namespaces: vec![Namespace {
            inode: 1,
            name: "host".into(),
        }],
        sources: vec![
            Source::required(SourceName::Sockets, "sockets", Verdict::Attached),
            Source::optional(
                SourceName::Ports,
                "ports",
                Verdict::Unsupported("no".into()),
            ),
        ],
        ..Manifest::default()
    }
}

/// Writes the segments of one table through its own writer.
fn table<T: Table>(writer: &Writer, dir: &Path) -> Result<()> {
    // The writer makes the directory; what goes into it is made of columns, not of rows.
    writer.table::<T>()?;
    for segment in 0..SEGMENTS {
        let schema = T::schema();
        let fields = schema.fields().iter();
        let arrays = fields.map(|field| {
            column(field.data_type(), ROWS as usize, |row| {
                let at = segment * ROWS + row;
                value(T::INFO.name, field.name(), at)
            })
        });
        let batch = RecordBatch::try_new(schema.clone(), arrays.collect::<Result<_>>()?)?;
        let path = dir
            .join(T::INFO.name)
            .join(format!("{:06}.parquet", segment + 1));
        crate::semantic::write(&path, &[batch], Default::default())?;
    }
    Ok(())
}

fn value(table: &str, name: &str, row: u64) -> Value {
    let some = |of: &[&str]| Value::Text(of[row as usize % of.len()].into());
    match name {
        "time_ns" => Value::Number(row * STEP_NS),
        "netns" | "family" => Value::Number(if name == "netns" { 1 } else { 4 }),
        "sock" | "stack" | "frame" | "inode" => Value::Number(row / 5 % 40 + 1),
        "pid" | "tid" => Value::Number(70 + row % 7),
        "depth" => Value::Number(row % 5),
        "cpu" => Value::Number(row % 4),
        "kind" => some(&[
            "state",
            "state",
            "retransmit",
            "drop",
            "reset-sent",
            "synack-retransmit",
        ]),
        "old_state" => some(&["CLOSE", "SYN_SENT", "ESTABLISHED"]),
        "state" => some(&["SYN_SENT", "ESTABLISHED", "CLOSE", "TIME_WAIT"]),
        "comm" | "waker_comm" => some(&["nginx", "client", "ksoftirqd/1", "swapper/0"]),
        "call" => some(&["connect", "accept", "recvmsg"]),
        "syscall" => some(&["poll", "futex", "recvfrom"]),
        "group" => some(&["Tcp", "TcpExt"]),
        "name" if table == "counter" => some(&["ListenOverflows", "TCPTimeouts", "InSegs"]),
        "name" => some(&["net.core.somaxconn", "net.ipv4.tcp_syncookies"]),
        "structure" => some(&["ehash", "bhash", "time-wait", "conntrack"]),
        "local_port" | "dst_port" => Value::Number(if row.is_multiple_of(2) {
            80
        } else {
            20_000 + row % 50
        }),
        "remote_port" | "src_port" => Value::Number(if row.is_multiple_of(2) {
            20_000 + row % 50
        } else {
            80
        }),
        _ if name.ends_with("addr") => {
            let addr = recording::Addr::from(Ipv4Addr::new(10, 0, 0, (row % 3) as u8 + 1));
            Value::Addr(addr.0.to_vec())
        }
        _ => Value::Number(row.wrapping_mul(0x9e37_79b9) % 5_000),
    }
}
