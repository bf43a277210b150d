#include "torch/switch_lock.h"

#include <pthread.h>

#include <mutex>

namespace torchprof::bridge {
namespace {

std::mutex switches;

void before_fork() { switches.lock(); }
void after_fork() { switches.unlock(); }

}  // namespace

std::unique_lock<std::mutex> lock_switches() {
  [[maybe_unused]] static const int is_held_across_forks =
      pthread_atfork(before_fork, after_fork, after_fork);
  return std::unique_lock(switches);
}

}  // namespace torchprof::bridge
