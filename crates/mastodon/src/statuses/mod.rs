//! Posts: writing, reading, changing and deleting them, and what people do with them.

pub mod context;
pub mod delete;
pub mod deliveries;
pub mod draft;
pub mod edit;
pub mod history;
pub mod marks;
pub mod people;
pub mod publish;
pub mod quotes;
pub mod show;
pub mod translate;
