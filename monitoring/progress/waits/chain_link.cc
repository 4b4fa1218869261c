#include "monitoring/progress/waits/chain_link.h"

#include <fmt/format.h>

#include "common/base/status.h"

namespace kintsugi::progress {

proto::ChainLink link_of(const OpenTasks& tasks, const WaitGraph& graph, uint32_t v) {
  const Vertex& vertex = graph.vertices()[v];
  proto::ChainLink link;
  if (vertex.place == Place::kEnded) {
    const EndedWait& ended = *vertex.ended;
    link.set_process(ended.display);
    link.set_role(ended.role);
    link.set_region(ended.region);
    link.set_state(fmt::format("ended: {}", ended.outcome <= static_cast<uint32_t>(kLastCode)
                                                ? code_name(static_cast<Code>(ended.outcome))
                                                : "unknown"));
    link.set_age_ns(ended.age_ns);
    link.set_wait(ended.wait);
    link.set_waits_for(ended.target);
    link.set_file(ended.file);
    link.set_line(ended.line);
    link.set_function(ended.function);
    return link;
  }
  if (vertex.place != Place::kTask) {
    link.set_process(vertex.process >= 0 ? tasks.snapshot().processes[vertex.process]->display()
                                         : vertex.name);
    switch (vertex.place) {
      case Place::kRunning: link.set_region("event loop"); break;
      case Place::kSilent: link.set_region("silent"); break;
      case Place::kNotServed: link.set_region("not served"); break;
      case Place::kUnanswered: link.set_region(vertex.name); break;
      case Place::kDevice: link.set_region("device " + vertex.name); break;
      case Place::kLink:
        link.set_region("link to " + tasks.snapshot().processes[vertex.peer]->display());
        break;
      default: link.set_region("caller"); break;
    }
    return link;
  }
  const OpenTask& task = tasks[v];
  const proto::SightLive& top = task.top();
  link.set_process(tasks.view(v).display());
  link.set_role(tasks.role(v));
  link.set_region(tasks.region(v));
  if (const proto::SightState* state = tasks.view(v).state(top.state()); state != nullptr)
    link.set_state(state->last_child());
  link.set_age_ns(top.age_ns());
  link.set_wait(top.wait());
  const int callee = tasks.process_at(top.target());
  link.set_waits_for(callee >= 0 ? tasks.snapshot().processes[callee]->display() : top.target());
  link.set_file(top.file());
  link.set_line(top.line());
  link.set_function(top.function());
  return link;
}

}  // namespace kintsugi::progress
