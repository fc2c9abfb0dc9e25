// Words that whoever reads a report may not know, in the order in which a connection meets them.

export const GLOSSARY: [string, string][] = [
  ["listener", "what a server listens on: an address and a port"],
  ["SYN, SYN-ACK", "the first two packets of a connection: may I, and yes"],
  ["SYN queue", "connections whose handshake is not complete"],
  [
    "SYN cookie",
    "how a server answers when its SYN queue is full: it keeps nothing, and the connection may lose options such as SACK",
  ],
  ["accept queue", "complete connections that wait until the program calls accept()"],
  ["backlog", "how many may wait there; the program says it to listen()"],
  ["round trip, RTT", "the time until an answer from the other end can be here"],
  ["window", "how much may be under way: what the other end has room for, or the network (cwnd)"],
  ["retransmitted", "sent once more because nobody said that it came"],
  ["RTO", "retransmission timeout: nothing was acknowledged for 200 ms or longer"],
  ["TLP", "tail loss probe: the last packet is sent once more before the timeout"],
  ["fast, RACK", "retransmitted at once, because later packets were acknowledged"],
  ["SACK", "the receiver says which packets it has, so that only lost ones are sent once more"],
  ["reset", "a packet that ends or refuses a connection"],
  ["TIME_WAIT", "a closed connection whose ports are kept for a minute"],
  ["softirq", "the part of the kernel that processes packets"],
  ["finding, note", "a cause that holds, and one that holds and cost too little"],
  ["ruled out", "a look-alike, with the number that speaks against it"],
];
