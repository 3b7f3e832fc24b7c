/* The devices as kolo_devices() has them; 0 where they are GPUs. For tests/run. */
#include <kolo.h>

#include <string.h>

int main(void)
{
    kolo_device_list list = kolo_devices(.print = true);
    return list.count > 0 && strncmp(list.device[0].name, "gpu:", 4) == 0 ? 0 : 1;
}
