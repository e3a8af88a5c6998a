//! What is asked of a graph database, and how the graph looks there.
//!
//! ```text
//! (:WindrowChunk)-[:MENTIONS]->(:WindrowEntity)-[:RELATED]->(:WindrowEntity)
//! (:WindrowRemoved)   documents of which a generation, or all, may not be written to any more
//! ```
//!
//! Everything that is written is found by an id of ours and merged, so that it may be written
//! again. Rows are in the order of their ids, so that two writers who need the same entities wait
//! for each other and do not block each other.

use uuid::Uuid;

use super::connection::Statement;
use super::pack::{Value, map};
use crate::adapters::extract::Extracted;
use crate::adapters::graph::{GraphError, Origin, called, kind};
use crate::catalog::{EntityId, GenerationKey, Scope, normalised};

/// What makes ids be found, and be there once. Repeated with every new connection.
pub(super) fn schema() -> Vec<Statement> {
    [
        "CREATE CONSTRAINT windrow_entity_id IF NOT EXISTS \
         FOR (e:WindrowEntity) REQUIRE e.id IS UNIQUE",
        "CREATE CONSTRAINT windrow_chunk_id IF NOT EXISTS \
         FOR (c:WindrowChunk) REQUIRE c.id IS UNIQUE",
        "CREATE CONSTRAINT windrow_removed_id IF NOT EXISTS \
         FOR (r:WindrowRemoved) REQUIRE r.id IS UNIQUE",
        "CREATE INDEX windrow_chunk_document IF NOT EXISTS \
         FOR (c:WindrowChunk) ON (c.document)",
    ]
    .map(|cypher| Statement { cypher, parameters: map([]) })
    .to_vec()
}

/// The entities that chunks mention.
pub(super) fn mentioned(chunks: &[Value]) -> Statement {
    let cypher = "UNWIND $chunks AS id \
         MATCH (:WindrowChunk {id: id})-[:MENTIONS]->(e:WindrowEntity) RETURN DISTINCT e.id";
    Statement { cypher, parameters: map([("chunks", Value::List(chunks.to_vec()))]) }
}

/// Nothing that chunks say stays. The relationships first: they are found over the mentions.
pub(super) fn forget(chunks: &[Value]) -> [Statement; 2] {
    [
        "UNWIND $chunks AS id \
         MATCH (:WindrowChunk {id: id})-[:MENTIONS]->(:WindrowEntity)\
         -[r:RELATED {chunk: id}]->() DELETE r",
        "UNWIND $chunks AS id MATCH (:WindrowChunk {id: id})-[m:MENTIONS]->() DELETE m",
    ]
    .map(|cypher| Statement { cypher, parameters: map([("chunks", Value::List(chunks.to_vec()))]) })
}

/// The chunks themselves, of which nothing stays.
pub(super) fn drop_chunks(chunks: &[Value]) -> Statement {
    let cypher = "UNWIND $chunks AS id MATCH (c:WindrowChunk {id: id}) DELETE c";
    Statement { cypher, parameters: map([("chunks", Value::List(chunks.to_vec()))]) }
}

/// Those of these entities that nobody mentions any more. Each is written to first: whoever is
/// about to mention it waits for us, or we for them, and the question is asked after that.
pub(super) fn drop_orphans(entities: Vec<Value>) -> Statement {
    let cypher = "UNWIND $entities AS id MATCH (e:WindrowEntity {id: id}) SET e.id = id \
         WITH e WHERE NOT EXISTS { (e)<-[:MENTIONS]-() } DELETE e";
    Statement { cypher, parameters: map([("entities", Value::List(entities))]) }
}

/// What a chunk says.
pub(super) fn say(origin: &Origin, said: &Extracted) -> Result<[Statement; 3], GraphError> {
    let Origin { chunk, at, scope } = origin;
    let chunk = Value::from(chunk.to_string());
    let in_scope = |rows: Vec<Value>| {
        map([
            ("chunk", chunk.clone()),
            ("document", at.document.to_string().into()),
            ("generation", i64::from(at.generation).into()),
            ("tenant", (*scope.tenant).into()),
            ("collection", (*scope.collection).into()),
            ("rows", Value::List(rows)),
        ])
    };
    let place = "MERGE (c:WindrowChunk {id: $chunk}) SET c.tenant = $tenant, \
         c.collection = $collection, c.document = $document, c.generation = $generation";
    let mention = "MATCH (c:WindrowChunk {id: $chunk}) UNWIND $rows AS row \
         MERGE (e:WindrowEntity {id: row.id}) ON CREATE SET e.tenant = $tenant, \
         e.collection = $collection, e.kind = row.kind, e.normalised = row.normalised, \
         e.name = row.name \
         MERGE (c)-[m:MENTIONS]->(e) \
         SET m.name = row.name, m.description = row.description, m.score = row.score";
    let relate = "UNWIND $rows AS row MATCH (a:WindrowEntity {id: row.source}) \
         MATCH (b:WindrowEntity {id: row.target}) \
         MERGE (a)-[r:RELATED {chunk: $chunk, kind: row.kind}]->(b) \
         SET r.document = $document, r.generation = $generation, r.keywords = row.keywords, \
         r.description = row.description, r.weight = row.weight";
    Ok([
        Statement { cypher: place, parameters: in_scope(Vec::new()) },
        Statement { cypher: mention, parameters: in_scope(mentions(scope, said)) },
        Statement { cypher: relate, parameters: in_scope(relationships(scope, said)?) },
    ])
}

fn mentions(scope: &Scope, said: &Extracted) -> Vec<Value> {
    let called = called(&said.entities);
    let mut rows: Vec<(EntityId, Value)> = Vec::new();
    for entity in &said.entities {
        let normal = normalised(&entity.name);
        let Some(called) = called.get(&normal) else { continue };
        let id = EntityId::of(scope, called);
        let row = map([
            ("id", id.to_string().into()),
            ("kind", (*entity.kind).into()),
            ("normalised", normal.into()),
            ("name", (*entity.name).into()),
            ("description", (*entity.description).into()),
            ("score", i64::from(entity.score).into()),
        ]);
        rows.push((id, row));
    }
    in_order(rows)
}

fn relationships(scope: &Scope, said: &Extracted) -> Result<Vec<Value>, GraphError> {
    let called = called(&said.entities);
    let find = |name: &str| match called.get(&normalised(name)) {
        Some(called) => Ok(EntityId::of(scope, called)),
        None => {
            let why = format!("a relationship names {name:?}, which is no entity of the text");
            Err(GraphError::Bad { why })
        }
    };
    let mut rows: Vec<((EntityId, EntityId), Value)> = Vec::new();
    for one in &said.relationships {
        let (source, target) = (find(&one.source)?, find(&one.target)?);
        let keywords = one.keywords.iter().map(|word| word.as_str().into()).collect();
        let row = map([
            ("source", source.to_string().into()),
            ("target", target.to_string().into()),
            ("kind", kind(one).into()),
            ("description", (*one.description).into()),
            ("keywords", Value::List(keywords)),
            ("weight", i64::from(one.weight).into()),
        ]);
        rows.push(((source, target), row));
    }
    Ok(in_order(rows))
}

fn in_order<K: Ord + Copy>(mut rows: Vec<(K, Value)>) -> Vec<Value> {
    rows.sort_by_key(|(key, _)| *key);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Nobody writes to this generation any more, or to any of the document.
pub(super) fn fence(document: Uuid, generation: Option<u32>) -> Statement {
    let id = ("id", Value::from(document.to_string()));
    match generation {
        Some(generation) => Statement {
            cypher: "MERGE (r:WindrowRemoved {id: $id}) \
                 SET r.generations = \
                 [g IN coalesce(r.generations, []) WHERE g <> $generation] + [$generation]",
            parameters: map([id, ("generation", i64::from(generation).into())]),
        },
        None => Statement {
            cypher: "MERGE (r:WindrowRemoved {id: $id}) \
                 SET r.is_whole = true, r.generations = []",
            parameters: map([id]),
        },
    }
}

/// How many fences stand before a generation.
pub(super) fn fences(at: GenerationKey) -> Statement {
    Statement {
        cypher: "MATCH (r:WindrowRemoved {id: $id}) \
             WHERE r.is_whole = true OR $generation IN coalesce(r.generations, []) \
             RETURN count(r)",
        parameters: map([
            ("id", at.document.to_string().into()),
            ("generation", i64::from(at.generation).into()),
        ]),
    }
}

/// Some chunks of a generation or of all of a document.
pub(super) fn chunks(document: Uuid, generation: Option<u32>, limit: i64) -> Statement {
    let (document, limit) = (document.to_string().into(), limit.into());
    match generation {
        Some(generation) => Statement {
            cypher: "MATCH (c:WindrowChunk {document: $document, generation: $generation}) \
                 RETURN c.id LIMIT $limit",
            parameters: map([
                ("document", document),
                ("generation", i64::from(generation).into()),
                ("limit", limit),
            ]),
        },
        None => Statement {
            cypher: "MATCH (c:WindrowChunk {document: $document}) RETURN c.id LIMIT $limit",
            parameters: map([("document", document), ("limit", limit)]),
        },
    }
}

/// How much there is of a collection: chunks, entities, mentions and relationships.
pub(super) fn counts(scope: &Scope) -> Vec<Statement> {
    [
        "MATCH (c:WindrowChunk {tenant: $tenant, collection: $collection}) RETURN count(c)",
        "MATCH (e:WindrowEntity {tenant: $tenant, collection: $collection}) RETURN count(e)",
        "MATCH (:WindrowChunk {tenant: $tenant, collection: $collection})-[m:MENTIONS]->() \
         RETURN count(m)",
        "MATCH (:WindrowEntity {tenant: $tenant, collection: $collection})-[r:RELATED]->() \
         RETURN count(r)",
    ]
    .map(|cypher| Statement {
        cypher,
        parameters: map([
            ("tenant", (*scope.tenant).into()),
            ("collection", (*scope.collection).into()),
        ]),
    })
    .to_vec()
}
