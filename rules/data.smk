# Text and evaluation sets: brought, checked, encoded, packed.


rule shard:
    output:
        record=flow.record("shard"),
    log:
        flow.log("shard"),
    threads: 1
    message:
        "shard {wildcards.result}"
    shell:
        "exec xsa shard {STUDY} {wildcards.result} --results {RESULTS} --threads {threads} --log {log}"


rule bundle:
    output:
        record=flow.record("bundle"),
    log:
        flow.log("bundle"),
    threads: 1
    message:
        "CORE bundle {wildcards.result}"
    shell:
        "exec xsa bundle {STUDY} {wildcards.result} --results {RESULTS} --threads {threads} --log {log}"


rule chatsets:
    output:
        record=flow.record("chatsets"),
    log:
        flow.log("chatsets"),
    threads: 1
    message:
        "chat sets {wildcards.result}"
    shell:
        "exec xsa chatsets {STUDY} {wildcards.result} --results {RESULTS} --threads {threads} --log {log}"


rule tokenizer:
    input:
        unpack(flow.inputs("tokenizer")),
    output:
        record=flow.record("tokenizer"),
    log:
        flow.log("tokenizer"),
    threads: 1
    message:
        "tokenizer {wildcards.result}"
    shell:
        "exec xsa tokenizer {STUDY} {wildcards.result} --results {RESULTS} --threads {threads} --log {log}"


rule tokens:
    input:
        unpack(flow.inputs("tokens")),
    output:
        record=flow.record("tokens"),
    log:
        flow.log("tokens"),
    threads: 1
    message:
        "tokens {wildcards.result}"
    shell:
        "exec xsa tokens {STUDY} {wildcards.result} --results {RESULTS} --threads {threads} --log {log}"


rule rows:
    input:
        unpack(flow.inputs("rows")),
    output:
        record=flow.record("rows"),
    log:
        flow.log("rows"),
    threads: 1
    message:
        "rows {wildcards.result}"
    shell:
        "exec xsa rows {STUDY} {wildcards.result} --results {RESULTS} --threads {threads} --log {log}"
