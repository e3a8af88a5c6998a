//! A connection that speaks Bolt 5: requests go out together, and each gets its answer in order.
//!
//! What a server refuses leaves the connection as good as new, because it is reset at once. After
//! anything else that goes wrong it is of no use any more, and says so.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::address::Address;
use super::pack::{Value, map};

/// An open connection that was logged on.
#[derive(Debug)]
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    /// The connection is not there, or of no use any more.
    Broken(String),
    /// The server says no.
    Said { code: String, message: String },
}

/// A statement and what it is about. The statement is ours to the last letter: what comes from
/// elsewhere is a parameter.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) cypher: &'static str,
    pub(super) parameters: Value,
}

/// What a statement answers, row by row.
pub(super) type Rows = Vec<Vec<Value>>;

const MAGIC: [u8; 4] = [0x60, 0x60, 0xB0, 0x17];
/// From 5.4 down to 5.1, and nothing else.
const VERSIONS: [u8; 16] = [0, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

const HELLO: u8 = 0x01;
const LOGON: u8 = 0x6A;
const RESET: u8 = 0x0F;
const RUN: u8 = 0x10;
const BEGIN: u8 = 0x11;
const COMMIT: u8 = 0x12;
const PULL: u8 = 0x3F;
const SUCCESS: u8 = 0x70;
const RECORD: u8 = 0x71;
const IGNORED: u8 = 0x7E;
const FAILURE: u8 = 0x7F;

/// We ask for ids and counts; whoever answers with more is not what it seems.
const ANSWER_BYTES_MAX: usize = 16 << 20;

impl Connection {
    /// Connects and logs on.
    pub(super) async fn open(
        address: &Address,
        user: &str,
        password: &str,
    ) -> Result<Connection, Trouble> {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
        let stream = stream.map_err(|error| Trouble::Broken(format!("no connection: {error}")))?;
        // Small requests leave at once; if the socket refuses that, they leave later.
        let _sooner = stream.set_nodelay(true);
        let mut connection = Connection { stream: BufReader::new(stream) };
        connection.agree().await?;
        let agent = concat!("windrow/", env!("CARGO_PKG_VERSION"));
        let hello =
            map([("user_agent", agent.into()), ("bolt_agent", map([("product", agent.into())]))]);
        let logon = map([
            ("scheme", "basic".into()),
            ("principal", user.into()),
            ("credentials", password.into()),
        ]);
        connection.exchange(&[request(HELLO, [hello]), request(LOGON, [logon])]).await??;
        Ok(connection)
    }

    /// Runs statements one after another, each for itself.
    pub(super) async fn run(
        &mut self,
        database: Option<&str>,
        statements: &[Statement],
    ) -> Result<Vec<Rows>, Trouble> {
        let requests: Vec<Value> =
            statements.iter().flat_map(|one| one.requests(in_database(database))).collect();
        Ok(pulled(self.ask(&requests).await?))
    }

    /// Begins a transaction with a statement.
    pub(super) async fn begin(
        &mut self,
        database: Option<&str>,
        first: &Statement,
    ) -> Result<Rows, Trouble> {
        let [run, pull] = first.requests(map([]));
        let rows = self.ask(&[request(BEGIN, [in_database(database)]), run, pull]).await?;
        Ok(rows.into_iter().last().unwrap_or_default())
    }

    /// Ends a transaction with these statements. It is committed if all of them succeed, and else
    /// as if it had never begun.
    pub(super) async fn commit(&mut self, statements: &[Statement]) -> Result<(), Trouble> {
        let mut requests: Vec<Value> =
            statements.iter().flat_map(|one| one.requests(map([]))).collect();
        requests.push(request(COMMIT, []));
        self.ask(&requests).await.map(drop)
    }

    /// Sends requests and answers the rows of each. After a refusal the connection is reset.
    async fn ask(&mut self, requests: &[Value]) -> Result<Vec<Rows>, Trouble> {
        match self.exchange(requests).await? {
            Ok(rows) => Ok(rows),
            Err(said) => match self.exchange(&[request(RESET, [])]).await? {
                Ok(_) => Err(said),
                Err(_) => Err(Trouble::Broken(format!("it cannot be reset after {said:?}"))),
            },
        }
    }

    /// The outer error is a connection that broke; the inner one what the server says, after which
    /// it ignores everything until it is reset.
    async fn exchange(
        &mut self,
        requests: &[Value],
    ) -> Result<Result<Vec<Rows>, Trouble>, Trouble> {
        let mut out = Vec::new();
        for request in requests {
            frame(request, &mut out);
        }
        self.stream.write_all(&out).await.map_err(lost)?;
        let mut all = Vec::new();
        let mut said = None;
        for _ in requests {
            let mut rows = Rows::new();
            loop {
                let Value::Structure(tag, mut fields) = self.receive().await? else {
                    return Err(Trouble::Broken("it sent something that is no message".into()));
                };
                match (tag, fields.pop()) {
                    (RECORD, Some(Value::List(row))) => rows.push(row),
                    (SUCCESS | IGNORED, _) => break,
                    (FAILURE, about) => {
                        said.get_or_insert_with(|| failure(about.as_ref()));
                        break;
                    }
                    _ => {
                        let why = format!("it sent a message {tag:#x} that we do not know");
                        return Err(Trouble::Broken(why));
                    }
                }
            }
            all.push(rows);
        }
        Ok(said.map_or(Ok(all), Err))
    }

    /// Finds a version that both sides speak.
    async fn agree(&mut self) -> Result<(), Trouble> {
        self.stream.write_all(&[&MAGIC[..], &VERSIONS].concat()).await.map_err(lost)?;
        let mut version = [0; 4];
        self.stream.read_exact(&mut version).await.map_err(lost)?;
        let why = match version {
            [0, 0, 1..=4, 5] => return Ok(()),
            [0, 0, 0, 0] => "it speaks no Bolt between 5.1 and 5.4".to_owned(),
            _ => "what listens there does not speak Bolt".to_owned(),
        };
        Err(Trouble::Broken(why))
    }

    /// One message, put together from its pieces.
    async fn receive(&mut self) -> Result<Value, Trouble> {
        let mut message = Vec::new();
        loop {
            let length = usize::from(self.stream.read_u16().await.map_err(lost)?);
            if length == 0 {
                // Between messages it only says that the other side is still there.
                if message.is_empty() {
                    continue;
                }
                break;
            }
            if message.len() + length > ANSWER_BYTES_MAX {
                let why = format!("its answer is longer than {ANSWER_BYTES_MAX} bytes");
                return Err(Trouble::Broken(why));
            }
            let begins = message.len();
            message.resize(begins + length, 0);
            self.stream.read_exact(&mut message[begins..]).await.map_err(lost)?;
        }
        Value::read(&message).map_err(|unreadable| {
            Trouble::Broken(format!("its answer cannot be read: {}", unreadable.0))
        })
    }
}

impl Statement {
    /// Runs it and pulls all of its rows.
    fn requests(&self, extra: Value) -> [Value; 2] {
        let run = request(RUN, [self.cypher.into(), self.parameters.clone(), extra]);
        [run, request(PULL, [map([("n", Value::Int(-1))])])]
    }
}

fn request<const N: usize>(tag: u8, fields: [Value; N]) -> Value {
    Value::Structure(tag, fields.to_vec())
}

fn in_database(database: Option<&str>) -> Value {
    match database {
        Some(database) => map([("db", database.into())]),
        None => map([]),
    }
}

/// Of the answers to pairs of RUN and PULL those to the second.
fn pulled(answers: Vec<Rows>) -> Vec<Rows> {
    answers.into_iter().skip(1).step_by(2).collect()
}

/// A message in pieces, each with its length before it, and an empty one at the end.
fn frame(request: &Value, out: &mut Vec<u8>) {
    let mut message = Vec::new();
    request.write(&mut message);
    for piece in message.chunks(usize::from(u16::MAX)) {
        out.extend((piece.len() as u16).to_be_bytes());
        out.extend(piece);
    }
    out.extend([0, 0]);
}

fn failure(about: Option<&Value>) -> Trouble {
    let part = |key: &str| {
        let found = about.and_then(|about| about.get(key)).and_then(Value::text);
        found.unwrap_or("nothing").to_owned()
    };
    Trouble::Said { code: part("code"), message: part("message") }
}

fn lost(error: std::io::Error) -> Trouble {
    Trouble::Broken(format!("the connection broke: {error}"))
}
