"""The style sheet of the page: light and dark, desktop and phone, screen and paper."""

STYLE = """
:root{color-scheme:light dark;--page:#f6f6f3;--sheet:#fff;--ink:#1d2329;--soft:#5b6670;--line:#d9dcd8;
--c0:#2f5d8a;--c1:#b0702b;--c2:#4c7d5b;--c3:#7a5793;--good:#2d6a4b;--goodbg:#eaf3ed;--care:#8a5a00;--carebg:#fbf3e1;
--stop:#a3271d;--stopbg:#fbe9e6;--track:#e6e8e5}
@media (prefers-color-scheme:dark){:root{--page:#14171a;--sheet:#1b1f23;--ink:#e4e7e9;--soft:#9ba6ae;--line:#363d43;
--c0:#7fb0dd;--c1:#dfa463;--c2:#86bd97;--c3:#bb98d4;--good:#86c9a3;--goodbg:#1c2b23;--care:#e5b964;--carebg:#2d2615;
--stop:#f19b91;--stopbg:#351d1a;--track:#30363b}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.58 "Source Serif 4",Charter,"Iowan Old Style",
"Palatino Linotype",Georgia,"DejaVu Serif",serif;overflow-wrap:anywhere}
main{max-width:54rem;margin:2.5rem auto;padding:3rem 3.5rem;background:var(--sheet);border:1px solid var(--line);
border-radius:6px}
h1,h2,h3,th,.eyebrow,.figures,.facts dt,figcaption,svg text,.by,footer,summary{font-family:system-ui,"Segoe UI",Roboto,
"Helvetica Neue","DejaVu Sans",sans-serif}
.eyebrow{margin:0;font-size:.78rem;letter-spacing:.09em;text-transform:uppercase;color:var(--soft)}
h1{margin:.2rem 0 .3rem;font-size:1.95rem;line-height:1.2;font-weight:650;letter-spacing:-.01em}
.by{margin:0 0 1.6rem;color:var(--soft);font-size:.88rem}
h2{margin:2.8rem 0 .7rem;padding-top:1.1rem;border-top:1px solid var(--line);font-size:1.18rem;font-weight:650;
display:flex;gap:.7rem}
h2 span{color:var(--soft);font-weight:400;min-width:1.1rem}
h3{margin:1.5rem 0 .4rem;font-size:.95rem}
p{margin:.6rem 0;max-width:42rem}
ul{margin:.6rem 0;padding-left:1.2rem;max-width:42rem}
li{margin:.4rem 0}
.verdict{margin:0 0 1.4rem;padding:.9rem 1.1rem;border-left:5px solid;border-radius:4px}
.verdict p{margin:.25rem 0}
.verdict strong{font-family:system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.holds{border-color:var(--good);background:var(--goodbg)}.holds strong{color:var(--good)}
.caution{border-color:var(--care);background:var(--carebg)}.caution strong{color:var(--care)}
.stop{border-color:var(--stop);background:var(--stopbg)}.stop strong{color:var(--stop)}
.stop>strong:first-child{font-size:1.15rem}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(10rem,1fr));gap:.8rem;margin:1.2rem 0}
.figures div{padding:.75rem .9rem;border:1px solid var(--line);border-radius:5px}
.figures b{display:block;white-space:nowrap;font-size:1.5rem;
font-weight:600;line-height:1.25;font-variant-numeric:tabular-nums}
.figures span{display:block;color:var(--soft);font-size:.8rem;line-height:1.4}
.lead{font-size:1.08rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(18rem,100%),1fr));gap:1.2rem;margin:1.1rem 0}
figure{margin:0}
figcaption{margin-top:.4rem;color:var(--soft);font-size:.82rem;line-height:1.45}
svg{display:block;width:100%;height:auto;max-width:32rem}
svg.bar{max-width:none;min-width:20rem}
svg text{font-size:11.5px;fill:var(--soft)}
.grid{stroke:var(--line);stroke-width:1}
.guess{fill:none;stroke:var(--soft);stroke-width:1.3;stroke-dasharray:5 4}
.curve{fill:none;stroke-width:2.4;stroke-linejoin:round}
.area{fill:var(--c0);opacity:.1}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}
.fill{stroke:var(--sheet);stroke-width:1}
.fill.c0{fill:var(--c0)}.fill.c1{fill:var(--c1)}.fill.c2{fill:var(--c2)}.fill.c3{fill:var(--c3)}
.fill.broken{fill:var(--stop)}.track{fill:var(--track)}.claim{stroke:var(--ink);stroke-width:2.5}
.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em;vertical-align:-.05em}
.key.c0{background:var(--c0)}.key.c1{background:var(--c1)}.key.c2{background:var(--c2)}.key.c3{background:var(--c3)}
.scroll{overflow-x:auto;margin:1rem 0}
table{border-collapse:collapse;width:100%;font-size:.9rem;line-height:1.4;font-variant-numeric:tabular-nums}
th{font-size:.78rem;font-weight:600;color:var(--soft);text-align:left;vertical-align:bottom}
th,td{padding:.42rem .8rem .42rem 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:normal}
td.long div{overflow-wrap:anywhere;min-width:9rem}td.long~td.long div{min-width:24rem}
th.n,td.n{text-align:right}td.n{white-space:nowrap}
.facts{display:grid;grid-template-columns:minmax(7rem,max-content) 1fr;gap:.3rem 1.2rem;margin:.9rem 0}
.facts dt{color:var(--soft);font-size:.85rem;line-height:1.75}
.facts dd{margin:0}
.facts.answers{grid-template-columns:1fr;max-width:42rem;gap:0}.answers dd{margin:0 0 .7rem}
code{font:.85em/1.4 ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace}
.open{color:var(--soft);font-style:italic}
.open::after{content:"";display:block;border-bottom:1px dotted var(--soft);height:1.5rem}
details{margin:1rem 0}summary{cursor:pointer;color:var(--soft);font-size:.88rem}
.sign{display:grid;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr));gap:1rem 2rem;margin-top:1.2rem}
.sign div{border-bottom:1px solid var(--ink);height:3.4rem;display:flex;align-items:flex-start;color:var(--soft);
font-size:.85rem}
footer{margin-top:2.5rem;color:var(--soft);font-size:.8rem;line-height:1.5}
@media (max-width:44rem){svg.bar text{font-size:18px}
main{margin:0;padding:1.4rem 1.15rem 2rem;border:0;border-radius:0}h1{font-size:1.5rem}
.figures{grid-template-columns:1fr 1fr}.figures b{font-size:1.2rem}
.facts{grid-template-columns:1fr;gap:0}.facts dd{margin:0 0 .6rem}}
@media print{details::details-content{content-visibility:visible;height:auto}summary{display:none}
:root{color-scheme:light;--page:#fff;--sheet:#fff;--ink:#000;--soft:#444;--line:#bbb;--c0:#2f5d8a;
--c1:#b0702b;--c2:#4c7d5b;--c3:#7a5793;--good:#1d5a3b;--goodbg:#fff;--care:#8a5a00;--carebg:#fff;--stop:#a3271d;
--stopbg:#fff;--track:#e6e8e5}body{font-size:10.5pt}main{margin:0;padding:0;border:0;max-width:none}
h2,h3{break-after:avoid}figure,tr,.verdict,.figures,.sign{break-inside:avoid}.scroll{overflow:visible}
svg,.verdict,.key{-webkit-print-color-adjust:exact;print-color-adjust:exact}@page{margin:18mm 16mm}}
"""
