//! Values of a scenario's file by their places: `links/0/path/loss`.

use toml::{Table, Value};

/// Where a value stands; the last key is made if it is not there.
pub(super) fn place<'t>(table: &'t mut Table, at: &str) -> Result<&'t mut Value, String> {
    let missing = || format!("there is no {at}");
    let Some((path, last)) = at.rsplit_once('/') else {
        return Ok(table.entry(at).or_insert(Value::Boolean(false)));
    };
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let mut value = table.get_mut(first).ok_or_else(missing)?;
    for key in rest.split('/').filter(|key| !key.is_empty()) {
        value = match key.parse::<usize>() {
            Ok(index) => value.as_array_mut().and_then(|a| a.get_mut(index)),
            Err(_) => value.as_table_mut().and_then(|t| t.get_mut(key)),
        }
        .ok_or_else(missing)?;
    }
    let table = value.as_table_mut().ok_or_else(missing)?;
    Ok(table.entry(last).or_insert(Value::Boolean(false)))
}

/// Makes a change that is written as `PLACE=VALUE`: the value as TOML has it; what is none is a text.
pub(super) fn make(table: &mut Table, change: &str) -> Result<(), String> {
    let (at, text) = change
        .split_once('=')
        .ok_or_else(|| format!("{change:?} is not PLACE=VALUE, as links/0/path/loss=0.05"))?;
    let value = format!("value = {text}").parse::<Table>();
    let value = value.ok().and_then(|mut table| table.remove("value"));
    *place(table, at)? = value.unwrap_or_else(|| Value::String(text.into()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_changed_where_it_stands() {
        let text =
            "[nodes.server.sysctl]\n[[links]]\npath = { loss = 0.1 }\n[[clients]]\nname = \"shop\"";
        let mut table: Table = text.parse().unwrap();
        for change in [
            "links/0/path/loss=0.5",
            "nodes/server/sysctl/net.ipv4.tcp_syncookies=2",
            "nodes/server/sysctl/net.ipv4.tcp_wmem=4096 16384 65536",
            "clients/0/congestion=[\"reno\"]",
            "servers_first=true",
        ] {
            make(&mut table, change).unwrap();
        }
        assert_eq!(table["links"][0]["path"]["loss"].as_float(), Some(0.5));
        let sysctls = &table["nodes"]["server"]["sysctl"];
        assert_eq!(sysctls["net.ipv4.tcp_syncookies"].as_integer(), Some(2));
        assert_eq!(
            sysctls["net.ipv4.tcp_wmem"].as_str(),
            Some("4096 16384 65536")
        );
        assert!(table["clients"][0]["congestion"].is_array());
        assert_eq!(table["servers_first"].as_bool(), Some(true));
        for (change, says) in [
            ("links/1/path/loss=0.5", "there is no links/1/path/loss"),
            ("links/x/path/loss=0.5", "there is no"),
            ("links/0/path/loss", "is not PLACE=VALUE"),
        ] {
            let error = make(&mut table, change).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
