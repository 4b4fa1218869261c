#include "monitoring/sight/module.h"

#include "common/base/assert.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::sight {

namespace {

/// Safe: only Recorder derives from TraceRecorder.
Recorder* recorder_of(const Context& context) {
  return static_cast<Recorder*>(context.recorder);
}

}  // namespace

Module::Module(const Context& parent, const Site& site, std::initializer_list<double> inputs)
    : context_(parent), site_(site), parent_span_(parent.trace.span_id) {
  KINTSUGI_ASSERT(inputs.size() <= kMaxFeatures);
  Recorder* const recorder = recorder_of(context_);
  if (recorder == nullptr) return;
  for (double value : inputs)
    inputs_[input_count_++] = value;
  if (context_.trace.trace_id == 0) context_.trace.trace_id = recorder->new_id();
  context_.trace.span_id = recorder->new_id();
  context_.trace.path = child_path(parent.trace.path, site);
  parent_path_ = parent.trace.path;
  entered_ = recorder->now();
}

Module::~Module() {
  Recorder* const recorder = recorder_of(context_);
  if (recorder == nullptr) return;
  Event event;
  event.site = &site_;
  event.trace_id = context_.trace.trace_id;
  event.span_id = context_.trace.span_id;
  event.parent_span_id = parent_span_;
  event.path = context_.trace.path;
  event.entered = entered_;
  event.duration = recorder->now() - entered_;
  event.inputs = inputs_;
  event.outputs = outputs_;
  event.input_count = input_count_;
  event.output_mask = output_mask_;
  event.code = code_;
  recorder->record(event, parent_path_);
}

void Module::output(size_t index, double value) {
  KINTSUGI_ASSERT(index < kMaxFeatures);
  outputs_[index] = value;
  output_mask_ |= static_cast<uint8_t>(1u << index);
}

Status Module::finish(Status status) {
  set_code(status.code());
  return status;
}

void Module::set_code(Code code) {
  if (code_ == Code::kOk) code_ = code;
}

}  // namespace kintsugi::sight
