//! `GET /api/v1/instance/languages` and `…/translation_languages`

use axum::Json;
use serde::Serialize;
use serde_json::{Value, json};

/// Languages posts can be marked with: ISO 639 codes and English names.
#[rustfmt::skip]
const LANGUAGES: &[(&str, &str)] = &[
    ("af", "Afrikaans"), ("am", "Amharic"), ("ar", "Arabic"), ("as", "Assamese"),
    ("az", "Azerbaijani"), ("be", "Belarusian"), ("bg", "Bulgarian"), ("bn", "Bengali"),
    ("bo", "Tibetan"), ("br", "Breton"), ("bs", "Bosnian"), ("ca", "Catalan"), ("cs", "Czech"),
    ("cy", "Welsh"), ("da", "Danish"), ("de", "German"), ("el", "Greek"), ("en", "English"),
    ("eo", "Esperanto"), ("es", "Spanish"), ("et", "Estonian"), ("eu", "Basque"),
    ("fa", "Persian"), ("fi", "Finnish"), ("fo", "Faroese"), ("fr", "French"),
    ("fy", "Western Frisian"), ("ga", "Irish"), ("gd", "Scottish Gaelic"), ("gl", "Galician"),
    ("gu", "Gujarati"), ("ha", "Hausa"), ("he", "Hebrew"), ("hi", "Hindi"), ("hr", "Croatian"),
    ("ht", "Haitian Creole"), ("hu", "Hungarian"), ("hy", "Armenian"), ("ia", "Interlingua"),
    ("id", "Indonesian"), ("ig", "Igbo"), ("is", "Icelandic"), ("it", "Italian"),
    ("ja", "Japanese"), ("jv", "Javanese"), ("ka", "Georgian"), ("kab", "Kabyle"),
    ("kk", "Kazakh"), ("km", "Khmer"), ("kn", "Kannada"), ("ko", "Korean"), ("ku", "Kurdish"),
    ("kw", "Cornish"), ("ky", "Kyrgyz"), ("la", "Latin"), ("lb", "Luxembourgish"), ("lo", "Lao"),
    ("lt", "Lithuanian"), ("lv", "Latvian"), ("mg", "Malagasy"), ("mi", "Maori"),
    ("mk", "Macedonian"), ("ml", "Malayalam"), ("mn", "Mongolian"), ("mr", "Marathi"),
    ("ms", "Malay"), ("mt", "Maltese"), ("my", "Burmese"), ("ne", "Nepali"), ("nl", "Dutch"),
    ("nn", "Norwegian Nynorsk"), ("no", "Norwegian"), ("oc", "Occitan"), ("or", "Odia"),
    ("pa", "Punjabi"), ("pl", "Polish"), ("ps", "Pashto"), ("pt", "Portuguese"),
    ("qu", "Quechua"), ("rm", "Romansh"), ("ro", "Romanian"), ("ru", "Russian"),
    ("rw", "Kinyarwanda"), ("sa", "Sanskrit"), ("sc", "Sardinian"), ("sco", "Scots"),
    ("sd", "Sindhi"), ("si", "Sinhala"), ("sk", "Slovak"), ("sl", "Slovenian"), ("sn", "Shona"),
    ("so", "Somali"), ("sq", "Albanian"), ("sr", "Serbian"), ("su", "Sundanese"),
    ("sv", "Swedish"), ("sw", "Swahili"), ("ta", "Tamil"), ("te", "Telugu"), ("tg", "Tajik"),
    ("th", "Thai"), ("ti", "Tigrinya"), ("tk", "Turkmen"), ("tl", "Tagalog"), ("tr", "Turkish"),
    ("tt", "Tatar"), ("ug", "Uyghur"), ("uk", "Ukrainian"), ("ur", "Urdu"), ("uz", "Uzbek"),
    ("vi", "Vietnamese"), ("wa", "Walloon"), ("wo", "Wolof"), ("xh", "Xhosa"), ("yi", "Yiddish"),
    ("yo", "Yoruba"), ("zh", "Chinese"), ("zh-CN", "Chinese (China)"),
    ("zh-HK", "Chinese (Hong Kong)"), ("zh-TW", "Chinese (Taiwan)"), ("zu", "Zulu"),
];

/// A language.
#[derive(Debug, Serialize)]
pub struct Language {
    code: &'static str,
    name: &'static str,
}

/// The languages posts can be marked with.
pub async fn get() -> Json<Vec<Language>> {
    Json(LANGUAGES.iter().map(|&(code, name)| Language { code, name }).collect())
}

/// What can be translated into what: nothing, for there is no translator here.
pub async fn translation() -> Json<Value> {
    Json(json!({}))
}
