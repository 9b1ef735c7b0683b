"""The few texts of notifications that do not come from users, in the languages of devices."""

from __future__ import annotations

from typing import NamedTuple


class Phrases(NamedTuple):
    """The texts in one language. `file`, `files`: for messages without text."""

    new_message: str
    file: str
    files: str


_ENGLISH = Phrases("New message", "Sent a file", "Sent files")

_PHRASES = {
    "ar": Phrases("رسالة جديدة", "أرسل ملفًا", "أرسل ملفات"),
    "de": Phrases("Neue Nachricht", "Hat eine Datei gesendet", "Hat Dateien gesendet"),
    "en": _ENGLISH,
    "es": Phrases("Mensaje nuevo", "Envió un archivo", "Envió archivos"),
    "fr": Phrases("Nouveau message", "A envoyé un fichier", "A envoyé des fichiers"),
    "hi": Phrases("नया संदेश", "एक फ़ाइल भेजी", "फ़ाइलें भेजीं"),
    "it": Phrases("Nuovo messaggio", "Ha inviato un file", "Ha inviato dei file"),
    "ja": Phrases("新しいメッセージ", "ファイルを送信しました", "ファイルを送信しました"),
    "ko": Phrases("새 메시지", "파일을 보냈습니다", "파일을 보냈습니다"),
    "nl": Phrases("Nieuw bericht", "Heeft een bestand gestuurd", "Heeft bestanden gestuurd"),
    "pl": Phrases("Nowa wiadomość", "Wysłano plik", "Wysłano pliki"),
    "pt": Phrases("Nova mensagem", "Enviou um arquivo", "Enviou arquivos"),
    "ru": Phrases("Новое сообщение", "Отправлен файл", "Отправлены файлы"),
    "tr": Phrases("Yeni mesaj", "Bir dosya gönderdi", "Dosyalar gönderdi"),
    "zh": Phrases("新消息", "发送了文件", "发送了文件"),
    "zh-hant": Phrases("新訊息", "傳送了檔案", "傳送了檔案"),
}

_TRADITIONAL = {"zh-tw", "zh-hk", "zh-mo"}


def phrases_for(locale: str | None) -> Phrases:
    """Return the texts in the language of a locale such as de-AT or pt_BR; English if there are none."""
    if locale is None:
        return _ENGLISH
    tag = locale.lower().replace("_", "-")
    if tag.startswith("zh-hant") or any(tag.startswith(region) for region in _TRADITIONAL):
        return _PHRASES["zh-hant"]
    return _PHRASES.get(tag.partition("-")[0], _ENGLISH)
