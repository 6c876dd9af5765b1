//! Every endpoint of `tests/endpoints.toml` against the entities of `tests/entities.toml`: each is
//! asked with something to show, and its answer compared key by key.

mod alone;
mod compare;
mod people;
mod posts;
mod rest;
mod scene;
mod told;
mod walk;

use crate::place::places;

use scene::Scene;
use walk::Walk;

#[tokio::test]
async fn every_endpoint_answers_with_the_keys_types_and_nulls_of_the_documents() {
    let mut found = Vec::new();
    for place in places() {
        let scene = Scene::set(&place).await;
        let mut walk = Walk::through(&place);
        people::profiles(&mut walk, &scene).await;
        people::bonds(&mut walk, &scene).await;
        people::follow_requests(&mut walk, &scene).await;
        posts::reading(&mut walk, &scene).await;
        posts::writing(&mut walk, &scene).await;
        posts::marking(&mut walk, &scene).await;
        posts::timelines(&mut walk, &scene).await;
        posts::media(&mut walk, &scene).await;
        told::notifications(&mut walk, &scene).await;
        told::requests(&mut walk, &scene).await;
        told::push(&mut walk, &scene).await;
        alone::filters(&mut walk, &scene).await;
        alone::old_filters(&mut walk, &scene).await;
        alone::lists_and_tags(&mut walk, &scene).await;
        alone::own(&mut walk, &scene).await;
        alone::profile(&mut walk, &scene).await;
        rest::instance(&mut walk, &scene).await;
        rest::apps(&mut walk, &scene).await;
        rest::streams(&mut walk, &scene).await;
        found.extend(walk.faults());
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
