// The Python calls that enter and leave a user's scope, which cross it.
//
// `with record_function("forward"):` calls `record_function.__enter__`. The scope begins somewhere inside
// that call, and ends inside the call of `__exit__`: frames and scope cross, though nobody wrote it so. It is
// the frames that give way: they end where the scope begins, or ends. So the scope keeps the times torch gave
// it, no time counts twice, and what such a call still does once the scope has begun lies in the scope.
//
// A scope that crosses other calls, as where a coroutine waits inside it, is left as it is.
#pragma once

#include "core/recording.h"

namespace torchprof {

// Needs rows in order, and keeps them so.
void cut_frames_at_scopes(Recording& recording);

}  // namespace torchprof
