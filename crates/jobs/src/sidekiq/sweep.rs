//! Putting back what processes held that died.

use redis::RedisResult;

use super::names;
use super::shared::Shared;

/// Puts back what processes held that give no sign of life, except this one.
pub(crate) async fn dead(shared: &Shared) -> RedisResult<()> {
    let mut redis = shared.redis();
    let holders: Vec<String> =
        redis::cmd("SMEMBERS").arg(names::HOLDERS).query_async(&mut redis).await?;
    for identity in holders.iter().filter(|identity| **identity != shared.identity) {
        sweep(shared, identity).await?;
    }
    Ok(())
}

/// Takes the place of an earlier process of the same place: what it held is put back at once.
pub(crate) async fn take_place(shared: &Shared) -> RedisResult<()> {
    if shared.options.place.is_empty() {
        return Ok(());
    }
    let key = names::place(&shared.options.place);
    let mut redis = shared.redis();
    let before: Option<String> =
        redis::cmd("GETSET").arg(&key).arg(&shared.identity).query_async(&mut redis).await?;
    if let Some(before) = before.filter(|before| *before != shared.identity) {
        let _: () = redis::cmd("DEL")
            .arg(names::alive(&before))
            .arg(&before)
            .arg(format!("{before}:work"))
            .arg(format!("{before}:workers"))
            .query_async(&mut redis)
            .await?;
        let _: () =
            redis::cmd("SREM").arg(names::PROCESSES).arg(&before).query_async(&mut redis).await?;
        sweep(shared, &before).await?;
    }
    Ok(())
}

async fn sweep(shared: &Shared, identity: &str) -> RedisResult<()> {
    let mut call = shared.scripts.sweep.key(names::alive(identity));
    call.key(names::held(identity)).key(names::QUEUES).key(names::HOLDERS).arg(identity);
    let count: i64 = call.invoke_async(&mut shared.redis()).await?;
    if count > 0 {
        tracing::warn!(count, identity, "jobs of a process that died were put back");
        metrics::counter!("weir_jobs_swept_total").increment(count.unsigned_abs());
    }
    Ok(())
}
