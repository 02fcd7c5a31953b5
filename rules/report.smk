# Tables, figures and the page.

from xsa.store.publish import figure_captions


rule analyse:
    input:
        unpack(flow.inputs("analyse")),
    output:
        record=flow.record("analyse"),
    log:
        flow.log("analyse"),
    threads: 1
    params:
        study=flow.study_of("analyse"),
    message:
        "tables and figures of {wildcards.result}"
    shell:
        "exec xsa analyse {params.study} {output.record:q} --threads {threads} --log {log:q}"


rule report:
    input:
        unpack(flow.inputs("report")),
    output:
        record=flow.record("report"),
    log:
        flow.log("report"),
    threads: 1
    params:
        study=flow.study_of("report"),
    message:
        "page of {wildcards.result}"
    shell:
        "exec xsa report {params.study} {output.record:q} --threads {threads} --log {log:q}"


rule publish:
    input:
        page=flow.page,
        stamp=flow.published_stamp,
    output:
        page=report(
            f"{RESULTS}/{{study}}/report.html",
            caption="../report/captions/page.rst",
            category="Page",
            labels={"study": "{study}"},
        ),
        # Declared for Snakemake's own report; they are copies, which may be deleted before the next ones come.
        figures=report(
            directory(f"{RESULTS}/{{study}}/figures"),
            patterns=["{figure}.svg"],
            caption="../report/captions/figure.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
    log:
        f"{RESULTS}/.logs/publish/{{study}}.log",
    params:
        figures=lambda wildcards: figure_captions(f"{RESULTS}/{wildcards.study}"),
    message:
        "page of {wildcards.study}: {output.page}"
    shell:
        "exec xsa publish {output.page:q} > {log:q}"


rule front_page:
    input:
        f"{RESULTS}/{FRONT_PAGE}/report.html",
    output:
        f"{RESULTS}/report.html",
    log:
        f"{RESULTS}/.logs/front_page.log",
    message:
        "page of the {FRONT_PAGE} study: {output}"
    shell:
        "(cp {input:q} {output:q}.part && mv {output:q}.part {output:q}) 2> {log:q}"
