//! Scopes in plain words.

use weir_community::oauth::Scopes;

/// What `scopes` allow, a line each; what a line says is not said again by a smaller one.
pub fn in_words(scopes: &Scopes) -> Vec<String> {
    let has = |wanted: &str| scopes.iter().any(|scope| scope == wanted);
    let mut lines: Vec<String> = Vec::new();
    for scope in scopes.iter() {
        let group = scope.rsplit_once(':').map(|(group, _)| group);
        let covered = group.is_some_and(|group| {
            has(group) || group.rsplit_once(':').is_some_and(|(outer, _)| has(outer))
        });
        if !covered {
            lines.push(line(scope));
        }
    }
    lines
}

fn line(scope: &str) -> String {
    let fixed = match scope {
        "read" => "read everything in your account, also what only you can see",
        "write" => "post, follow, and change everything in your account for you",
        "follow" => "see and change whom you follow, block and mute",
        "push" => "send you notifications",
        "profile" | "read:me" => "know your name and profile",
        "read:search" => "search for you",
        "write:conversations" => "mute and delete your conversations",
        "write:media" => "upload pictures, sound and video for you",
        "write:reports" => "report people and posts for you",
        "write:statuses" => "write, edit and delete posts for you",
        "read:statuses" => "read the posts you can see",
        "read:accounts" => "see your profile and those of others",
        "write:accounts" => "change your profile",
        "admin:read" => "read everything about this server that you can see as staff",
        "admin:write" => "do everything on this server that you can do as staff",
        _ => "",
    };
    if !fixed.is_empty() {
        return fixed.to_owned();
    }
    let (action, what) = scope.rsplit_once(':').unwrap_or(("read", scope));
    let what = what.replace('_', " ");
    match action {
        "read" => format!("see your {what}"),
        "write" => format!("change your {what}"),
        "admin:read" => format!("see this server's {what}, as staff"),
        _ => format!("change this server's {what}, as staff"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scope_has_words_and_groups_say_it_for_their_parts() {
        for scope in Scopes::known() {
            assert_eq!(in_words(&scope.parse().unwrap()).len(), 1, "{scope}");
        }
        let scopes: Scopes =
            "read read:lists write:lists admin:read admin:read:reports".parse().unwrap();
        assert_eq!(
            in_words(&scopes),
            [
                "read everything about this server that you can see as staff",
                "read everything in your account, also what only you can see",
                "change your lists",
            ]
        );
    }
}
