# Text and evaluation sets: brought, checked, encoded, packed.


rule shard:
    output:
        record=flow.record("shard"),
    log:
        flow.log("shard"),
    threads: 1
    params:
        study=flow.study_of("shard"),
    message:
        "shard {wildcards.result}"
    shell:
        "exec xsa shard {params.study} {output.record:q} --threads {threads} --log {log:q}"


rule bundle:
    output:
        record=flow.record("bundle"),
    log:
        flow.log("bundle"),
    threads: 1
    params:
        study=flow.study_of("bundle"),
    message:
        "CORE bundle {wildcards.result}"
    shell:
        "exec xsa bundle {params.study} {output.record:q} --threads {threads} --log {log:q}"


rule chatsets:
    output:
        record=flow.record("chatsets"),
    log:
        flow.log("chatsets"),
    threads: 1
    params:
        study=flow.study_of("chatsets"),
    message:
        "chat sets {wildcards.result}"
    shell:
        "exec xsa chatsets {params.study} {output.record:q} --threads {threads} --log {log:q}"


rule tokenizer:
    input:
        unpack(flow.inputs("tokenizer")),
    output:
        record=flow.record("tokenizer"),
    log:
        flow.log("tokenizer"),
    threads: 1
    params:
        study=flow.study_of("tokenizer"),
    message:
        "tokenizer {wildcards.result}"
    shell:
        "exec xsa tokenizer {params.study} {output.record:q} --threads {threads} --log {log:q}"


rule imported_tokenizer:
    output:
        record=flow.record("imported_tokenizer"),
    log:
        flow.log("imported_tokenizer"),
    threads: 1
    params:
        study=flow.study_of("imported_tokenizer"),
    message:
        "imported tokenizer {wildcards.result}"
    shell:
        "exec xsa imported_tokenizer {params.study} {output.record:q} --threads {threads} --log {log:q}"


rule tokens:
    input:
        unpack(flow.inputs("tokens")),
    output:
        record=flow.record("tokens"),
    log:
        flow.log("tokens"),
    threads: 1
    params:
        study=flow.study_of("tokens"),
    message:
        "tokens {wildcards.result}"
    shell:
        "exec xsa tokens {params.study} {output.record:q} --threads {threads} --log {log:q}"


rule rows:
    input:
        unpack(flow.inputs("rows")),
    output:
        record=flow.record("rows"),
    log:
        flow.log("rows"),
    threads: 1
    params:
        study=flow.study_of("rows"),
    message:
        "rows {wildcards.result}"
    shell:
        "exec xsa rows {params.study} {output.record:q} --threads {threads} --log {log:q}"
