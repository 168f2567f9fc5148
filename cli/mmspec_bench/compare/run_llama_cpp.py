"""Runs llama.cpp by its Python package.

It reads a GGUF file in the model's directory, in the precision of that file, and sees no images.
Option `lookup`: tokens that its prompt lookup proposes.
"""

import os
from pathlib import Path
from typing import Any

from mmspec.ground.errors import UsageError
from mmspec_bench.compare.script_io import Clock, Program, Question, Task, images_of, text_of

TEMPLATE_TOKENS = 512
"""Tokens that a chat template may add to a question."""


def load_llama_cpp(task: Task) -> Program:
    """Load llama.cpp, plainly or with the prompt lookup of its Python package."""
    import llama_cpp
    from llama_cpp.llama_chat_format import Jinja2ChatFormatter
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    file = next(iter(sorted(Path(task.model).glob("*.gguf"))), None)
    if file is None:
        raise UsageError(f"llama.cpp needs a GGUF file in {task.model}: it reads no other weights")
    lookup = task.options.get("lookup")
    draft: Any = LlamaPromptLookupDecoding(num_pred_tokens=lookup) if lookup else None
    drafts = list[Any]()

    def propose(ids: Any, **options: Any) -> Any:
        """Propose tokens, once after each forward."""
        drafts.append(draft(ids, **options))
        return drafts[-1]

    # Unlike the other programs it heeds no environment variable.
    threads = int(os.environ.get("OMP_NUM_THREADS", "0")) or None
    # A token has at least a byte. The whole context would take logits of 1.6 GB with lookup.
    texts = [text_of(question) for group in task.questions.values() for question in group]
    longest = max((len(text.encode()) for text in texts), default=0)
    llama: Any = llama_cpp.Llama(
        str(file),
        n_ctx=longest + TEMPLATE_TOKENS + task.max_tokens,
        n_threads=threads,
        n_threads_batch=threads,
        draft_model=propose if lookup else None,
        verbose=False,
    )
    ends = llama.token_eos(), llama.token_bos()
    eos, bos = (llama.detokenize([end], special=True).decode() for end in ends)
    template = llama.metadata["tokenizer.chat_template"]
    render: Any = Jinja2ChatFormatter(template, eos_token=eos, bos_token=bos)

    def answer(question: Question, clock: Clock) -> tuple[list[int], int]:
        if images_of(question):
            raise UsageError("llama.cpp is asked for text alone here")
        prompt = render(messages=[{"role": "user", "content": text_of(question)}]).prompt
        ids = llama.tokenize(prompt.encode(), add_bos=False, special=True)
        llama.reset()
        drafts.clear()
        tokens = list[int]()
        for token in llama.generate(ids, top_k=1, temp=0.0, repeat_penalty=1.0):
            clock.record(1 + len(tokens))
            if token == llama.token_eos():
                break
            tokens.append(token)
            if len(tokens) == task.max_tokens:
                break
        return tokens, 1 + len(drafts) if draft else len(clock.events)

    facts = {"device": "cpu", "file": file.name, "llama_cpp": llama_cpp.__version__}
    return Program(answer, facts)
