// Two hundred texts that somebody may enqueue to see whether the console runs them.
//
// Each would set `window.__hit` to its own number if a page put it where it does not belong without
// escaping it, and says where that is: its `context`. Texts of style cannot run anything; they set
// the property `--hit` instead. rig.test.mjs plants every one of them, unescaped, and demands that
// the rig sees it, so that none is here for show.
//
// Leaves out what no browser of today runs: expression(), vbscript:, data: in a link of a page.

/** Where a page may put a text: each as a page would that forgot to escape. */
export const CONTEXTS = {
  text: (s) => `<p>${s}</p>`,
  double: (s) => `<input value="${s}">`,
  single: (s) => `<input value='${s}'>`,
  bare: (s) => `<input value=${s}>`,
  link: (s) => `<a href="${s}">a link</a>`,
  frame: (s) => `<iframe src="${s}"></iframe>`,
  handler: (s) => `<button onclick="show('${s}')">a button</button><script>show = String</script>`,
  script: (s) => `<script>var name = "${s}";</script>`,
  script_single: (s) => `<script>var name = '${s}';</script>`,
  // Where quotes are escaped, and what escapes them is not.
  script_escaped: (s) => `<script>var name = "${s.replaceAll('"', '\\"')}";</script>`,
  script_template: (s) => `<script>var name = \`${s}\`;</script>`,
  script_comment: (s) => `<script>// of ${s}\n</script>`,
  json: (s) => `<script type="application/json">{"name": "${s}"}</script>`,
  style: (s) => `<style>p { color: ${s} }</style><p>text</p>`,
  style_attribute: (s) => `<p style="color: ${s}">text</p>`,
  title: (s) => `<title>${s}</title>`,
  textarea: (s) => `<textarea>${s}</textarea>`,
  noscript: (s) => `<noscript>${s}</noscript>`,
  comment: (s) => `<!-- ${s} -->`,
  drawing: (s) => `<svg><desc>${s}</desc></svg>`,
  drawing_style: (s) => `<svg><style>${s}</style></svg>`,
  cdata: (s) => `<svg><![CDATA[${s}]]></svg>`,
  tag: (s) => `<${s}>text</p>`,
  // Escaped once, and taken back once too often.
  twice: (s) => `<p>${decoded(s)}</p>`,
  // Made into HTML by somebody who thinks that Markdown is harmless.
  markdown: (s) => `<p>${markdown(s)}</p>`,
  // Given to a page's own script, which knows only one way to show a text.
  inner: (s) => `<p></p><script>document.querySelector('p').innerHTML = ${inScript(s)}</script>`,
};

/** What stands for `window.__hit=17` and for `17` in what follows. */
const STATEMENT = '@';
const NUMBER = '~';

/** By kind, and there by context. */
const WRITTEN = {
  scripts: {
    text: [
      '<script>@</script>',
      '<SCRIPT>@</SCRIPT>',
      '<scRipt\n>@</scRipt\n>',
      '<script/type=text/javascript>@</script>',
      '<script x=">" y>@</script>',
      '<script async>@</script>',
      '<script type="module">@</script>',
      '<script>@//</script>',
      '<script><!--\n@\n--></script>',
      '</p></td></div></main></body><script>@</script>',
      "<script>setTimeout('@',0)</script>",
      '<script>Function("@")()</script>',
      '<script>`${@}`</script>',
      '<script src="data:text/javascript,@"></script>',
    ],
    double: ['"><script>@</script>', '"/><script>@</script><i x="'],
    single: ["'><script>@</script>", "'/><script>@</script><i x='"],
    bare: ['x><script>@</script>', '><script>@</script>'],
    inner: ['<img src=x onerror=@>', '<svg><animate onbegin=@ attributeName=x dur=1s>'],
  },
  handlers: {
    text: [
      '<img src=x onerror=@>',
      '<img src=x onerror="@">',
      "<img src=x onerror='@'>",
      '<IMG SRC=x ONERROR=@>',
      '<img/src="x"/onerror=@>',
      '<img src=x onerror\n=\n"@">',
      '<img src="x"onerror="@">',
      '<img srcset=x onerror=@>',
      '<image src=x onerror=@>',
      '<audio src=x onerror=@>',
      '<video src=x onerror=@></video>',
      '<video><source onerror=@></video>',
      '<input autofocus onfocus=@>',
      '<button autofocus onfocus=@>a</button>',
      '<p tabindex=0 autofocus onfocus=@>a</p>',
      '<details open ontoggle=@>a</details>',
      '<iframe onload=@></iframe>',
      '<body onload=@>',
      '<link rel=stylesheet href=x onerror=@>',
      '<link rel=stylesheet href=data:text/css, onload=@>',
      '<script src=x onerror=@></script>',
      '<object data=x onerror=@></object>',
      '<style onload=@></style>',
      '<p onmouseover=@>over here</p>',
      '<p onpointerover="@">over here</p>',
      '<a onmouseenter=@>over here</a>',
      '<p contenteditable onfocus=@ autofocus>a</p>',
      '<img src=x onerror="&#119;indow.__hit=~">',
      '<img src=x onerror="window&period;__hit=~">',
    ],
    double: [
      '" autofocus onfocus="@',
      '"autofocus onfocus=@ x="',
      '" autofocus onfocus=@//',
      '" onfocus=@ autofocus><i x="',
      '" type=image src=x onerror="@',
      '"\tautofocus\tonfocus\t=\t"@',
      '" onmouseover="@" x="',
      '" style="animation:none" onpointerover="@',
    ],
    single: [
      "' autofocus onfocus='@",
      "'autofocus onfocus=@ x='",
      "' type=image src=x onerror='@",
      "'/autofocus/onfocus='@",
      "' onmouseover='@",
    ],
    bare: ['x autofocus onfocus=@', 'x\tautofocus\tonfocus=@', '""onmouseover=@'],
    tag: ['p onmouseover=@', 'img src=x onerror=@', 'p/onpointerover=@'],
  },
  drawings: {
    text: [
      '<svg onload=@>',
      '<svg/onload=@>',
      '<svg><script>@</script></svg>',
      '<svg><script>window&#46;__hit=~</script></svg>',
      '<svg><animate onbegin=@ attributeName=x dur=1s>',
      '<svg><set onbegin=@ attributeName=x>',
      '<svg><image href=x onerror=@></image></svg>',
      '<svg><a xlink:href="javascript:@"><text y=20>a link</text></a></svg>',
      '<svg><style><img src=x onerror=@></style></svg>',
      '<math><mtext><img src=x onerror=@></mtext></math>',
      '<svg><foreignObject><img src=x onerror=@></foreignObject></svg>',
    ],
    drawing: ['</desc></svg><img src=x onerror=@>', '<img src=x onerror=@>'],
    drawing_style: ['<img src=x onerror=@>', '</style><script>@</script>'],
    cdata: [']]><img src=x onerror=@>', ']]></svg><script>@</script>'],
  },
  addresses: {
    link: [
      'javascript:@',
      'JavaScript:@',
      'jAvAsCrIpT:void(@)',
      'java\nscript:@',
      'java\tscript:@',
      'java\r\nscript:@',
      ' javascript:@',
      '\u0001javascript:@',
      '\u0002\u001fjavascript:@',
      'javascript://example.org/%0a@',
      'javascript:/**/@',
      'javascript&colon;@',
      '&#106;avascript:@',
      '&#x6A;avascript&#58;@',
      '&Tab;javascript:@',
      'javascript&#x3a;@',
      'javascript:%77indow.__hit=~',
      "javascript:window['__h'+'it']=~",
      '" onmouseover="@',
      '"><img src=x onerror=@>',
    ],
    frame: ['javascript:@', 'javascript:parent.@', 'x" onload="@', '" srcdoc="<script>@</script>'],
    markdown: [
      '[a link](javascript:@)',
      '[a link](JAVASCRIPT:@)',
      '[a link](java\tscript:@)',
      '[a link](x" onmouseover="@)',
      '![a picture](x" onerror="@)',
      '![x" onerror="@](x)',
      '<javascript:@>',
      '# A heading <img src=x onerror=@>',
      '`code`<img src=x onerror=@>',
    ],
  },
  breakouts: {
    script: ['";@;"', '"+(@)+"', '"-(@)//', '</script><script>@</script>', '";\n@\n"'],
    script_single: ["';@;'", "'+(@)+'", '</script><img src=x onerror=@>'],
    script_escaped: ['\\";@;//'],
    script_template: ['${@}', '`+(@)+`', '`;@;`', '${Function("@")()}'],
    script_comment: ['\n@', '\r@', '\u2028@', '\u2029@', '</script><svg onload=@>'],
    json: ['</script><script>@</script>', '"}</script><img src=x onerror=@>'],
    handler: ["');@;('", "'+(@)+'", '&#39;);@;(&#39;', '&apos;-(@)-&apos;'],
    title: ['</title><script>@</script>', '</TITLE\n><img src=x onerror=@>'],
    textarea: ['</textarea><script>@</script>', '</textarea/><svg onload=@>'],
    noscript: ['</noscript><img src=x onerror=@>', '<p title="</noscript><img src=x onerror=@>">'],
    comment: ['--><script>@</script>', '--!><img src=x onerror=@>', '> --><svg onload=@><!--'],
  },
  halves: {
    text: [
      '<img src=x onerror=@ ',
      '<img src=x onerror=@//<p>',
      '<<script>@</script>',
      '<!--><img src=x onerror=@>',
      '<!---><svg onload=@>',
      '<?xml version="1.0"?><img src=x onerror=@>',
      '<!doctype html><img src=x onerror=@>',
      '<![CDATA[><img src=x onerror=@>]]>',
      '</ ><img src=x onerror=@>',
      '<a<img src=x onerror=@><img src=x onerror=@>',
      '{{constructor.constructor("@")()}}<svg onload=@>',
    ],
  },
  entities: {
    twice: [
      '&lt;script&gt;@&lt;/script&gt;',
      '&LT;img src=x onerror=@&GT;',
      '&#60;img src=x onerror=@&#62;',
      '&#x3C;svg onload=@&#x3E;',
      '&#0000060;svg onload=@&#0000062;',
      '&lt;img src=x onerror=&quot;@&quot;&gt;',
    ],
  },
  letters: {
    text: [
      '\u202e<img src=x onerror=@>\u202c',
      '\u2066<svg onload=@>\u2069',
      '\u200f\u200e<script>@</script>',
      '\ufeff<script>@</script>',
      'e\u0301\u0301\u0301\u0301<svg onload=@>',
      '\u{1f4a3}<script>@</script>\u{e0061}',
      '\u0008\u001b[31m<img src=x onerror=@>',
      'nu\u0000ll<svg onload=@>',
      '\u0085\u00a0<img src=x onerror=@>',
      '\uff1cscript\uff1e<svg onload=@>',
    ],
  },
  nothings: {
    text: [
      'null<svg onload=@>',
      'undefined<script>@</script>',
      'NaN<img src=x onerror=@>',
      '[object Object]<img src=x onerror=@>',
    ],
  },
  styles: {
    style: [
      'red } :root { --hit: ~ } p { color: red',
      'red}*{--hit:~}p{color:red',
      '</style><script>@</script><style>',
      'red; --hit: ~; color: red',
    ],
    style_attribute: [
      'red; --hit: ~',
      'red;--hit:~;background:url(x)',
      'red" onmouseover="@',
      'red;animation:a 1s" onpointerover="@',
    ],
    text: [
      '<style>:root{--hit:~}</style>',
      '<link rel=stylesheet href="data:text/css,*{--hit:~}">',
      '<p style="--hit:~">a</p>',
    ],
    drawing_style: ['*{--hit:~}'],
  },
};

/** So many characters before what matters. */
const LONG = [1000, 4000, 16_000, 60_000];

/** All of them: `number`, `kind`, `context`, and the `text` itself. */
export const hostile = numbered();

/** Those of some kinds, or of no more than so many characters. */
export function hostileOf({ kinds = null, longest = Infinity } = {}) {
  const fits = (one) => (!kinds || kinds.includes(one.kind)) && one.text.length <= longest;
  return hostile.filter(fits);
}

function numbered() {
  const all = [];
  const add = (kind, context, written) => {
    const number = all.length + 1;
    const text = written.replaceAll(STATEMENT, `window.__hit=${NUMBER}`).replaceAll(NUMBER, number);
    all.push({ number, kind, context, text });
  };
  for (const [kind, contexts] of Object.entries(WRITTEN)) {
    for (const [context, texts] of Object.entries(contexts)) {
      for (const written of texts) add(kind, context, written);
    }
  }
  for (const long of LONG) add('long', 'text', 'a'.repeat(long) + '<img src=x onerror=@>');
  return all;
}

/** What a browser makes of the entities in a text. */
function decoded(text) {
  const named = { lt: '<', gt: '>', quot: '"', amp: '&' };
  return text
    .replaceAll(/&#x([0-9a-f]+);/gi, (_, hex) => String.fromCodePoint(parseInt(hex, 16)))
    .replaceAll(/&#(\d+);/g, (_, decimal) => String.fromCodePoint(parseInt(decimal, 10)))
    .replaceAll(/&(lt|gt|quot|amp);/gi, (_, name) => named[name.toLowerCase()]);
}

/** The least of Markdown, without a thought for what it is given. */
function markdown(text) {
  return text
    .replaceAll(/!\[(.*?)\]\((.*?)\)/gs, '<img alt="$1" src="$2">')
    .replaceAll(/\[(.*?)\]\((.*?)\)/gs, '<a href="$2">$1</a>')
    .replaceAll(/<([a-z]+:[^>]*)>/g, '<a href="$1">$1</a>');
}

/** A text as a word of a script, which ends no script. */
function inScript(text) {
  return JSON.stringify(text).replaceAll('<', '\\u003c');
}
