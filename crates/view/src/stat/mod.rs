//! `tcpwhy stat`
