"""All subjects by name."""

from support.damage import chat_files, measured_files, model_files, training_files
from support.damage.subject import Subject

WEIGHTS = ("model.safetensors",) * 8
CONFIGS = ("config.json",) * 4
TEXTS = (
    *("tokenizer.json",) * 2,
    *("tokenizer_config.json", "preprocessor_config.json", "chat_template.json"),
)
HEAD = ("config.json", "model.safetensors")
SHARDS = ("model-00001-of-00002.safetensors", "model.safetensors.index.json")

CORE = {
    "images": Subject(chat_files.use_picture, chat_files.IMAGES, chat_files.make_images),
    "clips": Subject(chat_files.use_clip, tuple(chat_files.CODECS), chat_files.make_clips),
    "conversations": Subject(
        chat_files.use_conversation, ("kept.json",) * 4 + ("a.png",), chat_files.make_conversation
    ),
    "lines": Subject(
        chat_files.use_lines, ("captions.jsonl", "prompts.jsonl"), chat_files.make_lines
    ),
    "measured": Subject(
        measured_files.use_measured,
        ("calibration.json", "finding.json"),
        measured_files.make_measured,
    ),
    "runs": Subject(
        measured_files.use_run,
        ("rows.jsonl", "rows.jsonl", "provenance.json"),
        measured_files.make_run,
    ),
    "training": Subject(
        training_files.use_training,
        ("run.json", "conversations.json"),
        training_files.make_training,
    ),
    "tokenizers": Subject(
        chat_files.use_tokenizer, chat_files.tokenizer_files(), chat_files.make_tokenizers
    ),
    "sentencepiece": Subject(
        chat_files.use_tokenizer, chat_files.SENTENCEPIECE, chat_files.make_sentencepiece
    ),
}
"""What no backend reads."""
MODELS = {
    "llava": Subject(model_files.use_model, (*CONFIGS, *TEXTS, *WEIGHTS)),
    "qwen": Subject(model_files.use_model, (*CONFIGS, *TEXTS, *WEIGHTS)),
    "qwen2_5_vl": Subject(model_files.use_model, (*CONFIGS, *TEXTS, *WEIGHTS)),
    "sharded": Subject(model_files.use_model, SHARDS),
    "mlx4": Subject(model_files.use_model, ("config.json", *WEIGHTS[:3])),
    "eagle": Subject(model_files.use_head, HEAD),
    "flash": Subject(model_files.use_head, HEAD),
    "eagle3": Subject(model_files.use_head, HEAD),
    "vispec": Subject(model_files.use_head, HEAD),
    "mrope": Subject(model_files.use_qwen_head, HEAD),
}
"""What each backend reads."""
PICKLES = {
    "pickle": Subject(
        model_files.use_head, ("config.json", "pytorch_model.bin", "pytorch_model.bin")
    ),
    "teacher": Subject(
        training_files.use_teacher, training_files.TEACHER_FILES, training_files.make_teacher
    ),
}
"""What PyTorch alone reads."""
SUBJECTS = CORE | MODELS | PICKLES
