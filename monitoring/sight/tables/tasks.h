/// The table of open tasks: where each stands, since when, and by which ways it came.
#pragma once

#include <atomic>
#include <cstdint>

#include "monitoring/sight/tables/seqlock.h"
#include "monitoring/sight/tables/zeroed_array.h"

namespace kintsugi::sight {

struct TaskEdge {
  uint16_t from, to;
  uint32_t count;
};

/// An open task.
struct TaskRecord {
  static constexpr size_t kEdges = 24;
  static constexpr size_t kRecent = 10;

  uint32_t sequence, generation;
  uint32_t root, top;  ///< record numbers; top 0: the entry is free
  uint32_t parent_task;
  uint16_t role, state;
  int64_t began_ns;
  /// When it last came to a state that is none of the recent ones, made progress, or got an answer.
  int64_t changed_ns;
  int64_t since_ns;  ///< when the task entered its state
  uint32_t transitions;
  uint16_t recent[kRecent];  ///< the most recent distinct states
  uint8_t recent_next, edge_count, overflowed, flags;
  /// Tasks that it stands for in the totals of transitions, itself among them.
  uint32_t weight;
  TaskEdge edges[kEdges];  ///< the task's own transitions; `overflowed`: there were more
  uint64_t reserved_more[6];
};
static_assert(sizeof(TaskRecord) == 320 && std::is_trivially_copyable_v<TaskRecord>);

/// One thread writes; any may read. A full table drops and counts.
class TaskTable {
 public:
  explicit TaskTable(uint32_t limit) : tasks_(limit) {}

  // ---- for the writer

  struct Beginning {
    int64_t now_ns;
    uint32_t parent_task, root, weight;
    uint16_t role;
    uint8_t flags;
  };
  /// A new task, which stands outside; 0: there is no room for it.
  uint32_t begin(const Beginning& beginning);
  void end(uint32_t number);
  TaskRecord& operator[](uint32_t number) { return tasks_[number]; }
  /// The task goes from its state to another. `usual_place` says which of a task's own edges this transition was last,
  /// and is kept true; null: nobody knows.
  [[gnu::always_inline]] void step(TaskRecord& task, uint16_t to, int64_t now_ns, uint32_t* usual_place) {
    const uint16_t from = task.state;
    put(task.state, to);
    put(task.since_ns, now_ns);
    add(task.transitions, uint32_t{1});
    const uint32_t place = usual_place != nullptr ? *usual_place : TaskRecord::kEdges;
    if (place >= task.edge_count || task.edges[place].from != from || task.edges[place].to != to)
      return take_other_edge(task, from, now_ns, usual_place);
    add(task.edges[place].count, uint32_t{1});
    // A task that has taken so few different edges has been in so few states that all of them are recent.
    if (task.edge_count >= TaskRecord::kRecent) come_to(task, to, now_ns);
  }

  // ---- for any thread

  uint32_t slots() const { return used_.load(std::memory_order_acquire); }
  /// False: free, or just being written.
  bool read(uint32_t slot, TaskRecord& task) const {
    return slot != 0 && slot < slots() && copy_whole(tasks_[slot], task) && task.top != 0;
  }
  uint64_t dropped() const { return dropped_.get(); }

 private:
  // What happens seldom saves the registers that it uses, so that what happens always keeps its values in them.
  [[clang::preserve_most]] static void take_other_edge(TaskRecord& task, uint16_t from, int64_t now_ns,
                                                       uint32_t* usual_place);
  [[clang::preserve_most]] static void come_to(TaskRecord& task, uint16_t state, int64_t now_ns);

  ZeroedArray<TaskRecord> tasks_;
  std::atomic<uint32_t> used_{1};
  uint32_t free_ = 0;  ///< first free slot; the others are linked by `parent_task`
  Count dropped_;
};

inline uint32_t TaskTable::begin(const Beginning& beginning) {
  uint32_t number = free_;
  if (number != 0) {
    free_ = tasks_[number].parent_task;
  } else {
    number = used_.load(std::memory_order_relaxed);
    if (number >= tasks_.size()) {
      dropped_.increment();
      return 0;
    }
    used_.store(number + 1, std::memory_order_release);
  }
  TaskRecord& task = tasks_[number];
  const Writing<TaskRecord> writing(task);
  put(task.root, beginning.root);
  put(task.parent_task, beginning.parent_task);
  put(task.role, beginning.role);
  put(task.state, uint16_t{0});
  put(task.began_ns, beginning.now_ns);
  put(task.changed_ns, beginning.now_ns);
  put(task.since_ns, beginning.now_ns);
  put(task.transitions, uint32_t{0});
  for (uint16_t& recent : task.recent)
    put(recent, uint16_t{0});
  put(task.recent_next, uint8_t{0});
  put(task.edge_count, uint8_t{0});
  put(task.overflowed, uint8_t{0});
  put(task.flags, beginning.flags);
  put(task.weight, beginning.weight);
  return number;
}

inline void TaskTable::end(uint32_t number) {
  TaskRecord& task = tasks_[number];
  const Writing<TaskRecord> writing(task);
  put(task.top, uint32_t{0});
  put(task.generation, task.generation + 1);
  put(task.parent_task, free_);
  free_ = number;
}

}  // namespace kintsugi::sight
