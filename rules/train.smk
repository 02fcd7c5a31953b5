# Training. The record is the declared output; checkpoints lie beside it, where Snakemake never deletes them.


rule pretrain:
    input:
        unpack(flow.inputs("pretrain")),
    output:
        record=flow.record("pretrain"),
    log:
        flow.log("pretrain"),
    threads: flow.threads("pretrain", workflow)
    params:
        study=flow.study_of("pretrain"),
    message:
        "training {wildcards.result}"
    shell:
        "exec xsa pretrain {params.study} {output.record:q} --threads {threads} --log {log:q}"


rule finetune:
    input:
        unpack(flow.inputs("finetune")),
    output:
        record=flow.record("finetune"),
    log:
        flow.log("finetune"),
    threads: flow.threads("finetune", workflow)
    params:
        study=flow.study_of("finetune"),
    message:
        "fine-tuning {wildcards.result}"
    shell:
        "exec xsa finetune {params.study} {output.record:q} --threads {threads} --log {log:q}"
