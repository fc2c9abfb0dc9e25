//! What a vocabulary is, and the macro that declares one: the words that columns hold and code knows.

use crate::text::Text;

/// A text of a column, as code knows it: a word of a [`vocabulary!`], or any [`Text`].
pub trait Word: Clone + Send + From<Text> + 'static {
    /// The type's name in the documentation.
    const TYPE: &'static str;
    /// The word as it is on disk.
    fn text(&self) -> &Text;
}

impl Word for Text {
    const TYPE: &'static str = "text";
    fn text(&self) -> &Text {
        self
    }
}

/// A vocabulary's name and words, without its type.
#[derive(Clone, Copy, Debug)]
pub struct VocabularyInfo {
    /// What its words name; the type of a column in the documentation.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Each word, and what it says.
    pub words: &'static [(&'static str, &'static str)],
}

/// Declares a vocabulary once: a type that code matches on, the words on disk, and their page of the
/// book. A word that it does not have, of another kernel or a later version, is kept as it is.
macro_rules! vocabulary {
    (
        $(#[doc = $doc:literal])+
        $name:ident = $label:literal {
            $( $(#[doc = $word_doc:literal])+ $variant:ident = $word:literal ; )+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $( $(#[doc = $word_doc])+ $variant, )+
            /// Any other word: of another kernel, or of a later version. Made from a text, it is none of the above.
            Unknown(Text),
        }

        impl $name {
            /// All its words, in the order of their declaration.
            pub const ALL: &'static [$name] = &[ $( $name::$variant, )+ ];
            /// Its name, and what its words say.
            pub const INFO: VocabularyInfo = VocabularyInfo {
                name: $label,
                doc: concat!($($doc),+),
                words: &[ $( ($word, concat!($($word_doc),+)), )+ ],
            };

            /// The word as it is on disk.
            pub fn as_str(&self) -> &str {
                match self {
                    $( $name::$variant => $word, )+
                    $name::Unknown(text) => text,
                }
            }
        }

        const _: () = {
            enum Nth { $($variant),+ }
            static TEXTS: LazyLock<Vec<Text>> = LazyLock::new(|| vec![ $( Text::from($word), )+ ]);

            impl Word for $name {
                const TYPE: &'static str = $label;
                fn text(&self) -> &Text {
                    match self {
                        $( $name::$variant => &TEXTS[Nth::$variant as usize], )+
                        $name::Unknown(text) => text,
                    }
                }
            }
            impl From<Text> for $name {
                fn from(text: Text) -> $name {
                    match &*text {
                        $( $word => $name::$variant, )+
                        _ => $name::Unknown(text),
                    }
                }
            }
            impl Default for $name {
                fn default() -> $name {
                    $name::Unknown(Text::default())
                }
            }
            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                    f.pad(self.as_str())
                }
            }
            impl serde::Serialize for $name {
                fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                    to.serialize_str(self.as_str())
                }
            }
            impl<'de> serde::Deserialize<'de> for $name {
                fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<$name, D::Error> {
                    let text = <String as serde::Deserialize>::deserialize(from)?;
                    Ok($name::from(Text::from(&*limits::text(&text))))
                }
            }
        };
    };
}
pub(crate) use vocabulary;
