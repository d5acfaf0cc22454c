"""Attention with one linear map each for queries, keys and values, as Hugging Face writes most models."""

from headcount.trained.layout import Layout

GROUPS = "num_key_value_groups"  # what transformers' own attention functions read, in any module

BERT = Layout(
    "BERT",
    ("query", "key", "value"),
    "../output.dense",
    head_dim="attention_head_size",
    heads="num_attention_heads",
    joined=("all_head_size",),
    groups=GROUPS,
)
ALBERT = Layout(
    "ALBERT",
    ("query", "key", "value"),
    "dense",
    head_dim="attention_head_size",
    heads="num_attention_heads",
    joined=("all_head_size",),
    groups=GROUPS,
    beside=("LayerNorm",),
)
LLAMA = Layout(
    "Llama",
    ("q_proj", "k_proj", "v_proj"),
    "o_proj",
    head_dim="head_dim",
    heads="num_attention_heads",
    groups=GROUPS,
)
BART = Layout(
    "BART",
    ("q_proj", "k_proj", "v_proj"),
    "out_proj",
    head_dim="head_dim",
    heads="num_heads",
    groups=GROUPS,
)
DISTILBERT = Layout(
    "DistilBERT",
    ("q_lin", "k_lin", "v_lin"),
    "out_lin",
    head_dim="attention_head_size",
    heads="n_heads",
    joined=("dim",),
    groups=GROUPS,
)
OWN = Layout("headcount", ("query", "key", "value"), "output", head_dim="head_dim", groups="group_size")

SEPARATE = (BERT, ALBERT, LLAMA, BART, DISTILBERT, OWN)
