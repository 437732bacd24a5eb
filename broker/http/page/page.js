// SPDX-License-Identifier: Apache-2.0
// The page: a stream of events in, tables and charts out. It has no names of its own for figures: metrics are
// named as in docs/metrics.md, and the stream says of each its column, unit and help. All texts of a broker are
// put in as text, never as HTML.
"use strict";
(() => {
  const KEPT_S = 600; // history, one figure a second
  const SHOWN = 50; // rows of a table
  const LATELY_S = 10; // a loss so long ago still needs a hand
  const FULL = 0.9; // of a limit: somebody should look
  const RETRY_MS = 2000, SILENT_MS = 5000, LANES_MS = 10000, PATHS_MS = 5000;
  const STREAM = "v1/events?view=status&view=workers&top=64&view=topics&sort=messages&top=300" +
    "&view=subs&sort=pending_bytes&top=1000&view=queues&sort=waiting_bytes&top=100" +
    "&view=clients&top=300&view=closed&top=20&view=errors&top=20&view=loss&top=20";

  // Metrics whose rate is of interest, by the view that has them.
  const RATES = {
    topics: ["ambroker_topic_messages_total", "ambroker_topic_bytes_total"],
    subs: ["ambroker_subscription_messages_total", "ambroker_subscription_messages_lost_total"],
    queues: ["ambroker_queue_messages_total"],
    clients: ["ambroker_client_messages_in_total", "ambroker_client_messages_out_total",
      "ambroker_client_bytes_in_total", "ambroker_client_bytes_out_total"],
  };
  // Totals of all workers, whose rates have a history.
  const TOTALS = ["ambroker_messages_in_total", "ambroker_messages_out_total", "ambroker_bytes_in_total",
    "ambroker_bytes_out_total"];
  const LOSSES = ["ambroker_messages_lost_slow_total", "ambroker_messages_lost_trimmed_total",
    "ambroker_messages_lost_expired_total", "ambroker_messages_lost_purged_total",
    "ambroker_messages_dropped_total", "ambroker_messages_rejected_total"];
  const SUB_LOSSES = ["ambroker_subscription_lost_slow_total", "ambroker_subscription_lost_trimmed_total",
    "ambroker_subscription_lost_expired_total", "ambroker_subscription_lost_purged_total"];
  const ERRORS = ["ambroker_connections_refused_limit_total", "ambroker_connections_refused_auth_total",
    "ambroker_connections_refused_version_total", "ambroker_handshake_timeouts_total",
    "ambroker_connections_bad_magic_total", "ambroker_control_messages_bad_total", "ambroker_tls_records_bad_total",
    "ambroker_tls_failed_total", "ambroker_requests_forbidden_total", "ambroker_clients_expired_total",
    "ambroker_clients_quarantined_total", "ambroker_violations_total", "ambroker_audit_lost_total"];
  const USES = [["ambroker_memory_used_bytes", "ambroker_memory_limit_bytes"],
    ["ambroker_memory_leased_bytes", "ambroker_memory_limit_bytes"],
    ["ambroker_clients", "ambroker_clients_limit"], ["ambroker_topics", "ambroker_topics_limit"],
    ["ambroker_subscriptions", "ambroker_subscriptions_limit"], ["ambroker_pairs", "ambroker_pairs_limit"]];
  // Short words for columns; the full name and its help stand in the tooltip.
  const WORDS = {
    ambroker_memory_used_bytes: "memory in use", ambroker_memory_leased_bytes: "of it, leased",
    ambroker_memory_bytes: "segments",
    ambroker_messages_in_total: "messages in", ambroker_messages_out_total: "messages out",
    ambroker_bytes_in_total: "bytes in", ambroker_bytes_out_total: "bytes out",
    ambroker_subscription_pending_bytes: "lag", ambroker_subscription_outstanding_bytes: "of credit",
    ambroker_subscription_credit_limit_bytes: "credit",
  };

  // ---- the state, as the stream tells it ----

  const views = new Map(); // name -> {rows: Map(key -> row), cut}
  const metrics = new Map(); // metric -> {view, column, kind, unit, help}
  // Of the chart of memory: in use, leased, and what segments have.
  const MEMORY = ["ambroker_memory_used_bytes", "ambroker_memory_leased_bytes", "ambroker_memory_bytes"];
  const history = {at: [], total: new Map([...TOTALS, ...MEMORY].map((name) => [name, []]))};
  let atMs = 0, previousMs = 0, lanes = new Map(), paths = {name: "", rows: []}, filter = "", heardMs = 0;
  let lastLoss = {sum: -1, atMs: 0};

  const rowsOf = (view) => views.get(view)?.rows ?? new Map();
  const about = (metric) => metrics.get(metric) ?? {view: "", column: "", kind: "text", unit: "", help: ""};
  const value = (row, metric) => row?.now[about(metric).column];
  const total = (metric) => {
    let sum = 0;
    for (const row of rowsOf(about(metric).view).values()) sum += value(row, metric) ?? 0;
    return sum;
  };

  function newRow() {
    return {now: {}, before: {}, rates: {}, history: new Map()};
  }

  function takeColumns(columns) {
    metrics.clear();
    for (const [view, list] of Object.entries(columns)) {
      for (const [column, [name, kind, unit, help]] of Object.entries(list)) {
        metrics.set(name, {view, column, kind, unit, help});
      }
    }
  }

  function takeViews(changes, isFull) {
    for (const [name, change] of Object.entries(changes)) {
      const old = views.get(name);
      const view = isFull || !old ? {rows: new Map(), cut: false} : old;
      for (const key of change.gone ?? []) view.rows.delete(key);
      for (const [key, columns] of Object.entries(change.set ?? {})) {
        const row = view.rows.get(key) ?? old?.rows.get(key) ?? newRow(); // Its history goes on.
        view.rows.set(key, row);
        Object.assign(row.now, columns);
      }
      view.cut = change.cut ?? view.cut;
      views.set(name, view);
    }
  }

  function keep(list, figure) {
    list.push(figure);
    if (list.length > KEPT_S) list.shift();
  }

  // A counter that runs backwards is another broker's: it began anew.
  function rateOf(row, metric, seconds) {
    const now = value(row, metric), before = row.before[metric];
    row.before[metric] = now;
    return before === undefined || now === undefined || now < before || seconds <= 0 ? 0 : (now - before) / seconds;
  }

  function measure() {
    const seconds = previousMs ? (atMs - previousMs) / 1000 : 0;
    previousMs = atMs;
    keep(history.at, atMs);
    for (const [view, names] of Object.entries(RATES)) {
      for (const row of rowsOf(view).values()) {
        for (const name of names) {
          row.rates[name] = rateOf(row, name, seconds);
          if (!row.history.has(name)) row.history.set(name, new Float32Array(KEPT_S).fill(NaN));
          const kept = row.history.get(name);
          kept.copyWithin(0, 1);
          kept[KEPT_S - 1] = row.rates[name];
        }
      }
    }
    for (const name of TOTALS) {
      let sum = 0;
      for (const row of rowsOf("workers").values()) sum += rateOf(row, name, seconds);
      keep(history.total.get(name), sum);
    }
    for (const name of MEMORY) keep(history.total.get(name), total(name));
    let lost = 0;
    for (const name of LOSSES) lost += total(name);
    if (lastLoss.sum >= 0 && lost > lastLoss.sum) lastLoss.atMs = atMs;
    lastLoss.sum = lost;
  }

  // ---- texts ----

  function three(number) {
    return number >= 100 || number === 0 ? String(Math.round(number)) : number.toPrecision(3);
  }

  function bytes(number) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (number >= 1024 && unit < units.length - 1) {
      number /= 1024;
      unit++;
    }
    return `${unit === 0 ? Math.round(number) : three(number)} ${units[unit]}`;
  }

  function time(ns) {
    return ns < 1e3 ? `${ns} ns` : ns < 1e6 ? `${three(ns / 1e3)} us` : ns < 1e9 ? `${three(ns / 1e6)} ms` :
      `${three(ns / 1e9)} s`;
  }

  const clock = (seconds) => new Date(seconds * 1000).toTimeString().slice(0, 8);

  // Counts stand plain, as in the views.
  function text(figure, unit) {
    if (figure === undefined || figure === null) return "";
    return unit === "bytes" ? bytes(figure) : unit === "ns" ? time(figure) : unit === "unix_s" ? clock(figure) :
      unit === "s" ? `${figure} s` : String(figure);
  }

  const word = (metric) => WORDS[metric] ?? about(metric).column.replaceAll("_", " ");
  const rate = (row, metric) =>
    about(metric).unit === "bytes" ? `${bytes(row.rates[metric] ?? 0)}/s` : `${three(row.rates[metric] ?? 0)}/s`;

  // ---- pieces of the document ----

  function element(name, className, content) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (content !== undefined) made.textContent = content;
    return made;
  }

  function put(where, content) {
    if (where.textContent !== content) where.textContent = content;
  }

  function explained(name, className, content, metric) {
    const made = element(name, className, content);
    if (metric) {
      made.dataset.help = metric;
      made.tabIndex = 0;
    }
    return made;
  }

  function section(title, className) {
    const made = element("section", className);
    made.append(element("h2", "", title));
    return made;
  }

  function link(kind, key, content) {
    const made = element("a", "", content);
    made.href = `#${kind}=${encodeURIComponent(key)}`;
    made.dir = "auto";
    return made;
  }

  // A table whose rows stay while their objects do, so that the focus does. columns: {head, metric, kind: "n" or
  // "name" or "why", cell(row, key, td)}.
  class Table {
    constructor(columns, empty) {
      this.columns = columns;
      this.root = element("div");
      this.scroll = element("div", "scroll");
      this.note = element("p", "note");
      this.empty = empty;
      this.lines = new Map();
      const table = element("table"), head = element("tr");
      for (const column of columns) {
        const cell = explained("th", column.kind, column.head ?? word(column.metric), column.metric);
        cell.scope = "col";
        head.append(cell);
      }
      this.body = element("tbody");
      const top = element("thead");
      top.append(head);
      table.append(top, this.body);
      this.scroll.append(table);
      this.root.append(this.scroll, this.note);
    }

    line(key, row) {
      const tr = element("tr");
      const cells = this.columns.map((column) => element("td", column.kind));
      tr.append(...cells);
      tr.dataset.key = key;
      const made = {tr, cells, row};
      this.lines.set(key, made);
      return made;
    }

    // entries: [key, row] in their order.
    show(entries, note) {
      const shown = entries.slice(0, SHOWN), keys = new Set(shown.map(([key]) => key));
      for (const [key, line] of this.lines) {
        if (!keys.has(key)) {
          line.tr.remove();
          this.lines.delete(key);
        }
      }
      shown.forEach(([key, row], place) => {
        const line = this.lines.get(key) ?? this.line(key, row);
        this.columns.forEach((column, i) => column.cell
          ? column.cell(row, key, line.cells[i])
          : put(line.cells[i], text(value(row, column.metric), about(column.metric).unit)));
        const there = this.body.children[place];
        // Moving a row would take the focus out of it.
        if (there !== line.tr && !(line.tr.isConnected && line.tr.contains(document.activeElement))) {
          this.body.insertBefore(line.tr, there ?? null);
        }
      });
      this.scroll.hidden = shown.length === 0;
      const rest = entries.length - shown.length;
      put(this.note, shown.length === 0 ? this.empty : [rest > 0 ? `${rest} more` : "", note ?? ""].filter(Boolean).join("; "));
    }
  }

  // Dygraphs' own legend writes styles into HTML, which the policy forbids.
  Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => !/legend/i.test(String(plugin.prototype?.toString?.() ?? "")));
  const charts = new Set();

  // series: {metric, word, letter of its colour}. An object of one series has one colour everywhere.
  class Chart {
    constructor(series, unit, perSecond) {
      this.series = series;
      this.isBytes = unit === "bytes";
      this.format = (figure) => (unit === "bytes" ? bytes(figure) : three(figure)) + (perSecond ? "/s" : "");
      this.root = element("div");
      this.field = element("div", "chart");
      this.field.setAttribute("role", "img");
      this.legend = element("ul", "legend");
      this.values = series.map((one) => {
        const item = element("li"), name = explained("span", "", one.word ?? word(one.metric), one.metric);
        const figure = element("span");
        item.append(element("i", one.letter), name, " ", figure);
        this.legend.append(item);
        return figure;
      });
      this.root.append(this.field, this.legend);
      this.hovered = false;
    }

    colors() {
      const style = getComputedStyle(document.documentElement);
      return {
        colors: this.series.map((one) => style.getPropertyValue(`--${one.letter}`).trim()),
        axisLineColor: style.getPropertyValue("--line").trim(),
        gridLineColor: style.getPropertyValue("--line").trim(),
      };
    }

    say(figures) {
      figures.forEach((figure, i) => put(this.values[i], Number.isFinite(figure) ? this.format(figure) : ""));
    }

    make(rows) {
      this.graph = new Dygraph(this.field, rows, {
        labels: ["time", ...this.series.map((one, i) => `${i}`)],
        labelsKMG2: this.isBytes, legend: "never", includeZero: true, strokeWidth: 1.6, interactionModel: {}, rightGap: 8,
        highlightCircleSize: 3,
        axes: {
          x: {pixelsPerLabel: 70, axisLabelFormatter: (date) => date.toTimeString().slice(0, 8)},
          y: {axisLabelWidth: 66, pixelsPerLabel: 32, axisLabelFormatter: (figure) => this.format(figure)},
        },
        highlightCallback: (event, x, points) => {
          this.hovered = true;
          const figures = this.series.map(() => NaN);
          for (const point of points) figures[Number(point.name)] = point.yval;
          this.say(figures);
        },
        unhighlightCallback: () => {
          this.hovered = false;
        },
        ...this.colors(),
      });
      charts.add(this);
    }

    // lists: one of figures a series, as long as history.at.
    show(lists) {
      const rows = history.at.map((at, i) => [new Date(at), ...lists.map((list) => {
        const figure = list[list.length - history.at.length + i];
        return Number.isFinite(figure) ? figure : null;
      })]);
      if (rows.length < 2 || !this.field.isConnected) return;
      if (!this.graph) this.make(rows);
      else this.graph.updateOptions({file: rows});
      const last = rows[rows.length - 1].slice(1);
      if (!this.hovered) this.say(last);
      this.field.setAttribute("aria-label",
        this.series.map((one, i) => `${one.word ?? word(one.metric)} ${this.format(last[i] ?? 0)}`).join(", "));
    }

    end() {
      this.graph?.destroy();
      charts.delete(this);
    }
  }

  function use(td, used, limit, unit) {
    const part = limit > 0 ? Math.min(1, used / limit) : 0;
    let meter = td.querySelector("meter");
    if (!meter) {
      meter = element("meter");
      meter.max = 1;
      td.replaceChildren(meter, element("span"));
    }
    meter.value = part;
    meter.setAttribute("aria-label", `${Math.round(part * 100)} %`);
    put(td.lastChild, ` ${text(used, unit)} of ${text(limit, unit)}`);
    td.classList.toggle("hand", part >= FULL);
  }

  const lossCell = (metrics_) => (row, key, td) => {
    const parts = metrics_.filter((name) => value(row, name) > 0)
      .map((name) => `${about(name).column.replace("lost_", "")} ${value(row, name)}`);
    put(td, parts.join(", "));
  };

  const byFigure = (metric) => ([, a], [, b]) => (value(b, metric) ?? 0) - (value(a, metric) ?? 0);

  function wanted(view, metric) {
    const all = [...rowsOf(view)];
    return filter === "" ? all : all.filter(([, row]) => String(value(row, metric) ?? "").includes(filter));
  }

  const cutNote = (view) => (views.get(view)?.cut ? `the broker has more; broker-ctl ${view} shows all` : "");

  function clientName(id) {
    const row = rowsOf("clients").get(String(id));
    return row ? `${value(row, "ambroker_client_name")} (${id})` : String(id);
  }

  // As the broker matches: "*" is one level, ">" all that follow.
  function reads(pattern, topic) {
    const wants = pattern.split("."), has = topic.split(".");
    for (let i = 0; i < wants.length; i++) {
      if (wants[i] === ">") return has.length > i;
      if (i >= has.length || (wants[i] !== "*" && wants[i] !== has[i])) return false;
    }
    return wants.length === has.length;
  }

  // ---- tables ----

  const rateColumn = (metric) => ({head: `${word(metric)}/s`, metric, kind: "n", cell: (row, key, td) => put(td, rate(row, metric))});
  const plain = (metric, kind = "n", head = undefined) => ({metric, kind, head});

  function topicTable() {
    return new Table([
      {metric: "ambroker_topic", kind: "name", cell: (row, key, td) => {
        if (!td.firstChild) td.append(link("topic", key, value(row, "ambroker_topic")));
      }},
      rateColumn("ambroker_topic_messages_total"), rateColumn("ambroker_topic_bytes_total"),
      plain("ambroker_topic_messages_total"), plain("ambroker_topic_log_messages"), plain("ambroker_topic_log_bytes"),
      plain("ambroker_topic_subscriptions"), plain("ambroker_topic_messages_dropped_total"),
      plain("ambroker_topic_messages_rejected_total"),
    ], "no topics");
  }

  function subTable() {
    return new Table([
      {metric: "ambroker_subscription_pattern", kind: "name", cell: (row, key, td) =>
        put(td, value(row, "ambroker_subscription_pattern"))},
      {metric: "ambroker_subscription_client", kind: "name", cell: (row, key, td) => {
        const id = value(row, "ambroker_subscription_client");
        if (!td.firstChild) td.append(link("client", id, ""));
        put(td.firstChild, clientName(id));
      }},
      rateColumn("ambroker_subscription_messages_total"), plain("ambroker_subscription_messages_total"),
      plain("ambroker_subscription_pending_bytes"),
      {metric: "ambroker_subscription_credit_limit_bytes", kind: "n", cell: (row, key, td) =>
        use(td, value(row, "ambroker_subscription_outstanding_bytes") ?? 0,
          value(row, "ambroker_subscription_credit_limit_bytes") ?? 0, "bytes")},
      {metric: "ambroker_subscription_messages_lost_total", kind: "n", cell: (row, key, td) => {
        put(td, text(value(row, "ambroker_subscription_messages_lost_total"), ""));
        td.classList.toggle("hand", row.rates.ambroker_subscription_messages_lost_total > 0);
      }},
      {head: "by reason", kind: "why", cell: lossCell(SUB_LOSSES)},
    ], "no subscriptions");
  }

  function clientTable() {
    return new Table([
      {metric: "ambroker_client_name", kind: "name", cell: (row, key, td) => {
        if (!td.firstChild) td.append(link("client", key, value(row, "ambroker_client_name")));
      }},
      plain("ambroker_client", "n"), plain("ambroker_client_link", ""), plain("ambroker_client_lanes", "why"),
      {head: "why not better", kind: "why", cell: (row, key, td) => put(td, whyOf(key))},
      rateColumn("ambroker_client_messages_in_total"), rateColumn("ambroker_client_messages_out_total"),
      {metric: "ambroker_client_mapped_limit_bytes", head: "mapped", kind: "n", cell: (row, key, td) =>
        use(td, value(row, "ambroker_client_mapped_bytes") ?? 0, value(row, "ambroker_client_mapped_limit_bytes") ?? 0,
          "bytes")},
    ], "no clients");
  }

  function queueTable() {
    return new Table([
      plain("ambroker_queue_pattern", "name"), plain("ambroker_queue_durable", "name"), plain("ambroker_queue_group", "name"),
      plain("ambroker_queue_members"), rateColumn("ambroker_queue_messages_total"),
      {metric: "ambroker_queue_pending_limit_messages", head: "pending", kind: "n", cell: (row, key, td) =>
        use(td, value(row, "ambroker_queue_pending_messages") ?? 0, value(row, "ambroker_queue_pending_limit_messages") ?? 0, "")},
      plain("ambroker_queue_waiting_bytes"), plain("ambroker_queue_messages_redelivered_total"),
      plain("ambroker_queue_messages_dead_total"), plain("ambroker_queue_messages_lost_total"),
    ], "no queues");
  }

  function whyOf(id) {
    const row = lanes.get(Number(id));
    if (!row) return "";
    const gpu = row.gpu_why ? `GPU memory: ${row.gpu_why}` : "";
    return [row.why_not_better, gpu].filter(Boolean).join("; ");
  }

  // Figures of the broker, by name; those of `worker` are the sum of all.
  function figureList(names, onlyThere) {
    const root = element("dl"), cells = new Map();
    return {root, show: (hand) => {
      let there = 0;
      for (const name of names) {
        const figure = total(name), isThere = !onlyThere || figure > 0;
        there += isThere ? 1 : 0;
        if (!cells.has(name) && isThere) {
          const dd = element("dd");
          dd.dataset.metric = name;
          cells.set(name, dd);
          root.append(explained("dt", "", word(name), name), dd);
        }
        if (cells.has(name)) {
          put(cells.get(name), text(figure, about(name).unit));
          cells.get(name).classList.toggle("hand", Boolean(hand?.(name)));
        }
      }
      return there;
    }};
  }

  // ---- what is shown: the overview, a topic, a client. Each is {nodes, show, end} ----

  function overview() {
    const rates = section("Messages"), amounts = section("Bytes");
    const messageChart = new Chart([{metric: TOTALS[0], letter: "a"}, {metric: TOTALS[1], letter: "b"}], "", true);
    const byteChart = new Chart([{metric: TOTALS[2], letter: "a"}, {metric: TOTALS[3], letter: "b"}], "bytes", true);
    rates.append(messageChart.root);
    amounts.append(byteChart.root);

    const memory = section("Memory"), memoryChart = new Chart([{metric: MEMORY[0], letter: "c"},
      {metric: MEMORY[1], letter: "d"}, {metric: MEMORY[2], letter: "b"}], "bytes", false);
    memory.append(memoryChart.root);
    const limits = section("Uses and their limits"), uses = element("dl"), cells = [];
    for (const [used, limit] of USES) {
      const dd = element("dd");
      dd.dataset.metric = used;
      uses.append(explained("dt", "", word(used), used), dd);
      cells.push([dd, used, limit]);
    }
    limits.append(uses);

    const losses = section("Messages lost, by reason"), lossList = figureList(LOSSES, false);
    losses.append(lossList.root);
    const errors = section("Errors"), errorList = figureList(ERRORS, true), none = element("p", "note", "none");
    const ended = new Table([
      plain("ambroker_closed_name", "name"), plain("ambroker_closed_client", "n"), plain("ambroker_closed_kind", ""),
      plain("ambroker_closed_reason", "why"),
      plain("ambroker_closed_time_seconds", "n", "at"),
    ], "");
    const lines = new Table([
      plain("ambroker_log_line_level", ""), plain("ambroker_log_line_total"), plain("ambroker_log_line_last_seconds", "n", "last"),
      plain("ambroker_log_line", "why"),
    ], "");
    errors.append(errorList.root, none, lines.root, ended.root);
    const losers = new Table([
      plain("ambroker_loss_pattern", "name"), plain("ambroker_loss_client_name", "name"), plain("ambroker_loss_reason", ""),
      plain("ambroker_loss_messages_total"), plain("ambroker_loss_last_seconds", "n", "last"),
    ], "");
    losses.append(losers.root);

    const find = element("input");
    find.type = "search";
    find.placeholder = "find topics, patterns, clients";
    find.setAttribute("aria-label", find.placeholder);
    find.value = filter;
    find.addEventListener("input", () => {
      filter = find.value;
      show();
    });
    const finder = element("div", "wide");
    finder.append(find);
    const tables = [
      ["Topics", topicTable(), "topics", "ambroker_topic", "ambroker_topic_messages_total"],
      ["Subscribers", subTable(), "subs", "ambroker_subscription_pattern", "ambroker_subscription_pending_bytes"],
      ["Clients, their lanes, and why not better ones", clientTable(), "clients", "ambroker_client_name", "ambroker_client"],
      ["Queues", queueTable(), "queues", "ambroker_queue_pattern", "ambroker_queue_waiting_bytes"],
    ].map(([title, table, view, name, order]) => {
      const where = section(title, "wide");
      where.id = `view-${view}`;
      where.append(table.root);
      return {where, table, view, name, order};
    });
    const workers = section("Workers", "wide"), workerTable = new Table([
      plain("ambroker_worker"), plain("ambroker_messages_in_total"), plain("ambroker_messages_out_total"),
      plain("ambroker_deliveries_in_place_total"), plain("ambroker_deliveries_by_copy_total"),
      plain("ambroker_worker_turn_recent_seconds"), plain("ambroker_worker_turn_longest_seconds"),
      plain("ambroker_worker_processor"),
    ], "no workers");
    workers.append(workerTable.root);

    return {
      nodes: [rates, amounts, memory, limits, losses, errors, finder, ...tables.map((one) => one.where), workers],
      focus: find,
      show() {
        messageChart.show([history.total.get(TOTALS[0]), history.total.get(TOTALS[1])]);
        byteChart.show([history.total.get(TOTALS[2]), history.total.get(TOTALS[3])]);
        memoryChart.show(MEMORY.map((name) => history.total.get(name)));
        for (const [dd, used, limit] of cells) use(dd, total(used), total(limit), about(used).unit);
        const isLately = lastLoss.atMs > 0 && atMs - lastLoss.atMs <= LATELY_S * 1000;
        lossList.show(() => isLately);
        const there = errorList.show();
        const gone = [...rowsOf("closed")].filter(([, row]) => value(row, "ambroker_closed_kind") !== "left")
          .sort(byFigure("ambroker_closed"));
        none.hidden = there > 0 || gone.length > 0 || rowsOf("errors").size > 0;
        lines.root.hidden = rowsOf("errors").size === 0;
        lines.show([...rowsOf("errors")].sort(byFigure("ambroker_log_line_last_seconds")));
        losers.root.hidden = rowsOf("loss").size === 0;
        losers.show([...rowsOf("loss")].sort(byFigure("ambroker_loss_last_seconds")));
        ended.root.hidden = gone.length === 0;
        ended.show(gone);
        for (const {where, table, view, name, order} of tables) {
          where.hidden = view === "queues" && rowsOf(view).size === 0;
          const entries = wanted(view, name).sort(byFigure(order));
          table.show(view === "clients" ? entries.reverse() : entries, cutNote(view));
        }
        workerTable.show([...rowsOf("workers")]);
      },
      end: () => [messageChart, byteChart, memoryChart].forEach((chart) => chart.end()),
    };
  }

  function figures(names) {
    const root = element("dl"), cells = names.map((name) => {
      const dd = element("dd");
      dd.dataset.metric = name;
      root.append(explained("dt", "", word(name), name), dd);
      return [name, dd];
    });
    return {root, show: (row) => cells.forEach(([name, dd]) => put(dd, text(value(row, name), about(name).unit)))};
  }

  const gone = (what) => [`This ${what} is not there, or not among those that the page has.`];

  function topicDetail(key) {
    const main = section("", "wide"), missing = element("p", "note");
    main.append(missing);
    const chart = new Chart([{metric: RATES.topics[0], letter: "a"}], "", true);
    const byteChart = new Chart([{metric: RATES.topics[1], letter: "b"}], "bytes", true);
    const rates = section("Messages"), amounts = section("Bytes");
    rates.append(chart.root);
    amounts.append(byteChart.root);
    const log = section("Log, and messages lost"), facts = figures(["ambroker_topic_worker", "ambroker_topic_priority",
      "ambroker_topic_tenant", "ambroker_topic_messages_total", "ambroker_topic_bytes_total", "ambroker_topic_log_messages",
      "ambroker_topic_log_bytes", "ambroker_topic_last_sequence", "ambroker_topic_subscriptions",
      "ambroker_topic_messages_dropped_total", "ambroker_topic_messages_rejected_total",
      "ambroker_topic_spill_dropped_total", "ambroker_topic_spill_failed_total", "ambroker_topic_spill_kept_bytes"]);
    log.append(facts.root);
    const limits = section("Limits"), uses = element("dl"), dd = element("dd");
    uses.append(explained("dt", "", "memory of the broker", "ambroker_memory_used_bytes"), dd);
    limits.append(uses);
    const readers = section("Its subscribers: lag against credit, and losses by reason", "wide"), subs = subTable();
    readers.append(subs.root);
    const ways = section("Lanes of its subscribers, and why not better ones", "wide"), clients = clientTable();
    ways.append(clients.root);
    return {
      nodes: [main, rates, amounts, log, limits, readers, ways],
      show() {
        const row = rowsOf("topics").get(key), name = row ? value(row, "ambroker_topic") : key.split("|")[0];
        put(main.firstChild, `Topic ${name}`);
        put(missing, row ? "" : gone("topic").join());
        const all = [...rowsOf("subs")].filter(([, sub]) => reads(value(sub, "ambroker_subscription_pattern") ?? "", name) &&
          value(sub, "ambroker_subscription_tenant") === (row ? value(row, "ambroker_topic_tenant") : ""));
        const ids = new Set(all.map(([, sub]) => String(value(sub, "ambroker_subscription_client"))));
        subs.show(all.sort(byFigure("ambroker_subscription_pending_bytes")), cutNote("subs"));
        clients.show([...rowsOf("clients")].filter(([id]) => ids.has(id)));
        use(dd, total("ambroker_memory_used_bytes"), total("ambroker_memory_limit_bytes"), "bytes");
        if (row) {
          facts.show(row);
          chart.show([row.history.get(RATES.topics[0])]);
          byteChart.show([row.history.get(RATES.topics[1])]);
        }
      },
      end: () => [chart, byteChart].forEach((one) => one.end()),
    };
  }

  function clientDetail(key) {
    const main = section("", "wide"), missing = element("p", "note");
    main.append(missing);
    const [messagesIn, messagesOut, bytesIn, bytesOut] = RATES.clients;
    const chart = new Chart([{metric: messagesIn, letter: "a"}, {metric: messagesOut, letter: "b"}], "", true);
    const byteChart = new Chart([{metric: bytesIn, letter: "a"}, {metric: bytesOut, letter: "b"}], "bytes", true);
    const rates = section("Messages"), amounts = section("Bytes");
    rates.append(chart.root);
    amounts.append(byteChart.root);
    const who = section("The client"), facts = figures(["ambroker_client", "ambroker_client_state", "ambroker_client_address",
      "ambroker_client_pid", "ambroker_client_uid", "ambroker_client_user", "ambroker_client_tenant",
      "ambroker_client_mechanism", "ambroker_client_suite", "ambroker_client_worker", "ambroker_client_link",
      "ambroker_client_lanes", messagesIn, bytesIn, messagesOut, bytesOut, "ambroker_client_commits_total",
      "ambroker_client_queued_frames"]);
    who.append(facts.root);
    const limits = section("Uses and their limits"), uses = element("dl");
    const pairs = [["ambroker_client_mapped_bytes", "ambroker_client_mapped_limit_bytes"],
      ["ambroker_client_heap_bytes", "ambroker_client_heap_limit_bytes"]].map(([used, limit]) => {
      const dd = element("dd");
      uses.append(explained("dt", "", word(used), used), dd);
      return [dd, used, limit];
    });
    const rest = figures(["ambroker_client_leased_bytes", "ambroker_client_quarantined_bytes",
      "ambroker_client_heap_refused_total"]);
    limits.append(uses, rest.root);
    const ways = section("Lanes, and why not better ones", "wide"), why = element("p");
    const cell = (column) => (row, k, td) => put(td, String(row.now[column] ?? ""));
    const wayTable = new Table([
      ...["direction", "class", "way"].map((head) => ({head, kind: "", cell: cell(head)})),
      ...["messages", "in_place", "copied", "staged"].map((head) => ({head: head.replace("_", " "), kind: "n", cell: cell(head)})),
      {head: "rate", kind: "n", cell: (row, k, td) => put(td, row.now.measured_rate_bytes ? `${bytes(row.now.measured_rate_bytes)}/s` : "")},
      {head: "why", kind: "why", cell: cell("why")},
    ], "asking the broker for its ways");
    ways.append(why, wayTable.root);
    const its = section("Its subscriptions: lag against credit, and losses by reason", "wide"), subs = subTable();
    its.append(subs.root);
    return {
      nodes: [main, rates, amounts, who, limits, ways, its],
      show() {
        const row = rowsOf("clients").get(key);
        put(main.firstChild, `Client ${row ? value(row, "ambroker_client_name") : key}`);
        put(missing, row ? "" : gone("client").join());
        const all = [...rowsOf("subs")].filter(([, sub]) => String(value(sub, "ambroker_subscription_client")) === key);
        subs.show(all.sort(byFigure("ambroker_subscription_pending_bytes")), cutNote("subs"));
        const reason = whyOf(key);
        put(why, reason ? `Not better, because: ${reason}` : "");
        wayTable.show(paths.rows.filter((one) => String(one.id) === key)
          .map((one) => [`${one.direction} ${one.class}`, {now: one}]));
        if (row) {
          facts.show(row);
          rest.show(row);
          for (const [dd, used, limit] of pairs) {
            use(dd, value(row, used) ?? 0, value(row, limit) ?? 0, "bytes");
          }
          chart.show([row.history.get(messagesIn), row.history.get(messagesOut)]);
          byteChart.show([row.history.get(bytesIn), row.history.get(bytesOut)]);
        }
      },
      end: () => [chart, byteChart].forEach((one) => one.end()),
    };
  }

  let shown = null, place = null;

  function placeOf() {
    const [, kind, key] = /^#(topic|client)=(.*)$/s.exec(location.hash) ?? [];
    try {
      return kind ? {kind, key: decodeURIComponent(key)} : {kind: "", key: ""};
    } catch {
      return {kind: "", key: ""};
    }
  }

  function build() {
    if (metrics.size === 0) return;
    shown?.end();
    place = placeOf();
    shown = place.kind === "topic" ? topicDetail(place.key) : place.kind === "client" ? clientDetail(place.key) : overview();
    document.getElementById("main").replaceChildren(...shown.nodes);
    show();
  }

  function showHead() {
    const status = rowsOf("status").get("")?.now ?? {};
    put(document.getElementById("name"), status.name || "Ambroker");
    put(document.getElementById("about"), status.version
      ? `Ambroker ${status.version}, pid ${status.pid}, UCX ${status.ucx}, up ${status.uptime_s} s` : "");
    document.title = status.name ? `${status.name} - Ambroker` : "Ambroker";
  }

  function show() {
    if (document.hidden) return;
    showHead();
    shown?.show();
    showTip();
  }

  function say(words, isHand) {
    const where = document.getElementById("state");
    put(where, words);
    where.classList.toggle("hand", isHand);
  }

  // ---- the stream ----

  const SILENT = "the broker does not answer; trying again";
  let source = null;

  function heard(event, isFull) {
    const data = JSON.parse(event.data);
    heardMs = Date.now();
    atMs = data.at_ms;
    const wasNew = metrics.size === 0;
    if (isFull) takeColumns(data.columns);
    takeViews(data.views, isFull);
    measure();
    const isDraining = rowsOf("status").get("")?.now[about("ambroker_draining").column] > 0;
    say(isDraining ? "the broker drains" : "live", isDraining);
    if (wasNew || !shown) {
      build();
      void askLanes();
    } else {
      show();
    }
  }

  async function whyRefused() {
    try {
      const answer = await fetch("v1/status", {cache: "no-store"});
      return answer.status === 401 ? "the key has expired: run broker-ctl page again" :
        answer.status === 403 ? "the broker shows no names here any more" :
        answer.ok ? "as many pages are open as the broker serves; trying again" : "";
    } catch {
      return "";
    }
  }

  function connect() {
    source?.close();
    source = new EventSource(STREAM);
    source.addEventListener("full", (event) => heard(event, true));
    source.addEventListener("delta", (event) => heard(event, false));
    source.addEventListener("error", () => {
      // A refusal ends a source for good; a lost connection does not.
      if (source.readyState === EventSource.CLOSED) void refused();
      else say(SILENT, true);
    });
  }

  async function refused() {
    say(await whyRefused() || SILENT, true);
    setTimeout(connect, RETRY_MS);
  }

  async function ask(path) {
    const answer = await fetch(path, {cache: "no-store"});
    return answer.ok ? answer.json() : null;
  }

  // Only while there is somebody to see it, and a broker that answers.
  const mayAsk = () => !document.hidden && source?.readyState === EventSource.OPEN && Date.now() - heardMs < SILENT_MS;

  async function askLanes() {
    if (!mayAsk() || rowsOf("clients").size === 0) return;
    try {
      const answer = await ask("v1/transports");
      lanes = new Map((answer?.transports ?? []).map((row) => [row.id, row]));
    } catch {
      return; // The stream says that the broker has gone.
    }
    show();
  }

  async function askPaths() {
    const row = place?.kind === "client" ? rowsOf("clients").get(place.key) : undefined;
    const name = row ? value(row, "ambroker_client_name") : "";
    if (!mayAsk() || !name) return;
    try {
      paths = {name, rows: (await ask(`v1/paths?name=${encodeURIComponent(name)}`))?.paths ?? []};
    } catch {
      return;
    }
    show();
  }

  // ---- tooltips, keys ----

  const tip = element("div");
  tip.id = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "tooltip");
  document.body.append(tip);
  let tipOf = null;

  function showTip() {
    if (!tipOf?.isConnected) tipOf = null;
    const metric = tipOf?.dataset.help;
    tip.hidden = !metric;
    if (!metric) return;
    if (tip.dataset.of !== metric) {
      tip.dataset.of = metric;
      tip.replaceChildren(element("b", "", metric), element("span", "", about(metric).help));
    }
    const box = tipOf.getBoundingClientRect(), own = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - own.width - 8))}px`;
    tip.style.top = `${box.bottom + own.height + 8 > innerHeight ? Math.max(4, box.top - own.height - 4) : box.bottom + 4}px`;
  }

  function rest(target) {
    tipOf = target instanceof Element ? target.closest("[data-help]") : null;
    showTip();
  }

  document.addEventListener("mouseover", (event) => rest(event.target));
  document.addEventListener("focusin", (event) => rest(event.target));
  document.addEventListener("focusout", () => rest(null));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && tipOf) {
      rest(null);
    } else if (event.key === "Escape" && place?.kind) {
      location.hash = "";
    } else if (event.key === "/" && shown?.focus && document.activeElement !== shown.focus) {
      event.preventDefault();
      shown.focus.focus();
    }
  });
  addEventListener("hashchange", () => {
    build();
    document.getElementById("main").focus();
    scrollTo(0, 0);
    void askPaths();
  });
  document.addEventListener("visibilitychange", show);
  addEventListener("resize", () => charts.forEach((chart) => chart.graph.resize()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change",
    () => charts.forEach((chart) => chart.graph.updateOptions(chart.colors())));

  // The key in the address has been spent.
  if (location.search) window.history.replaceState(null, "", location.pathname + location.hash);
  connect();
  setInterval(() => {
    if (heardMs && Date.now() - heardMs > SILENT_MS && source.readyState !== EventSource.CLOSED) say(SILENT, true);
  }, 1000);
  setInterval(askLanes, LANES_MS);
  setInterval(askPaths, PATHS_MS);
})();
